"""Leads of accounts that the org has become contacts under them where people chose so, and leads everywhere else."""

from typing import Any

import pytest

from crmsync.flows.adopt import adopted
from crmsync.flows.deliver import deliver
from crmsync.flows.reap import reap
from crmsync.gateway import connect
from crmsync.models import AccountLeads, CrmRecord, OutboxMessage
from crmsync.moves.claim import claim_next
from crmsync.moves.retry import retry_dead
from tests.crmsync.rows import again, age_claims, drain, put, run_sql, statuses
from tests.crmsync.sandbox_org import SandboxOrg
from tests.crmsync.test_adopt import all_of, create, user

pytestmark = pytest.mark.django_db(transaction=True)
EMAIL = "ada@customer.example"
NOWHERE = "001000000000999AAA"


def choose(written_as: str) -> None:
    AccountLeads.objects.update_or_create(pk=1, defaults={"written_as": written_as})


@pytest.fixture
def account(org: SandboxOrg) -> str:
    choose("Contact")
    return create("Account")


def lead(key: str, account: str, **fields: Any) -> OutboxMessage:
    """What a turn puts into the outbox of a lead that was matched to this account."""
    return put(key, **{"email": f"{key}@customer.example", "matched_account": account, **fields})


def contacts(org: SandboxOrg) -> list[tuple[str, str, str]]:
    return sorted((one["Rota_Id__c"], one["AccountId"], one["LastName"]) for one in org.records("Contact"))


def test_a_lead_of_a_known_account_is_a_contact_under_it_with_its_rep_as_owner(org: SandboxOrg, account: str) -> None:
    rep = user(1)
    message = lead("one", account, first_name="Ada", last_name="Byron", company="Acme", country="UK", owner=rep)
    drain()
    assert again(message).status == "delivered"
    assert all_of(org, "Lead") == []
    (found,) = all_of(org, "Contact")
    said = {name: found[name] for name in ("Rota_Id__c", "AccountId", "FirstName", "LastName", "OwnerId", "Email")}
    assert said == {
        "Rota_Id__c": "one",
        "AccountId": account,
        "FirstName": "Ada",
        "LastName": "Byron",
        "OwnerId": rep,
        "Email": "one@customer.example",
    }
    record = CrmRecord.objects.get()
    assert (record.object, record.written_as, record.crm_id, record.owner) == ("Lead", "Contact", found["Id"], rep)
    assert record.parents == [{"relation": "Account", "object": "Account", "crm_id": account}]
    lead("one", account, phone="+49301")  # and goes on as that contact
    drain()
    assert [(one["Phone"], one["AccountId"]) for one in all_of(org, "Contact")] == [("+49301", account)]


def test_it_gets_a_placeholder_for_a_name_that_nobody_said(org: SandboxOrg, account: str) -> None:
    lead("one", account)
    drain()
    assert contacts(org) == [("one", account, "[not provided]")]


@pytest.mark.parametrize("chosen", ["", "Lead"])
def test_unless_people_choose_otherwise_it_is_a_lead_and_no_account_is_asked_for(org: SandboxOrg, chosen: str) -> None:
    if chosen:
        choose(chosen)
    asked: list[str] = []
    gateway = connect()
    gateway.session.hooks["response"].append(lambda response, **_: asked.append(response.request.url))
    try:
        lead("one", create("Account"), company="Acme")
        drain()
    finally:
        gateway.session.hooks["response"].pop()
    assert [one["Company"] for one in org.records("Lead")] == ["Acme"]
    assert contacts(org) == []
    assert not [url for url in asked if "FROM+Account" in url or "FROM%20Account" in url]


def test_a_lead_without_an_account_stays_a_lead(org: SandboxOrg, account: str) -> None:
    put("one", email=EMAIL)
    lead("two", account)
    drain()
    assert [one["Rota_Id__c"] for one in org.records("Lead")] == ["one"]
    assert [key for key, _, _ in contacts(org)] == ["two"]


@pytest.mark.parametrize("given", [NOWHERE, "003000000000001AAA", "Acme", "001' OR Name != '", 7])
def test_an_account_that_the_org_does_not_have_makes_no_contact(org: SandboxOrg, account: str, given: Any) -> None:
    lead("one", given)
    lead("two", account)
    drain()
    assert [one["Rota_Id__c"] for one in org.records("Lead")] == ["one"]
    assert [key for key, _, _ in contacts(org)] == ["two"]
    because = CrmRecord.objects.get(external_id="one").no_contact_because
    assert because == (f"The CRM has no Account {NOWHERE}." if given == NOWHERE else "")


def test_the_short_form_of_an_accounts_id_is_as_good(org: SandboxOrg, account: str) -> None:
    lead("one", account[:15])
    drain()
    assert [under for _, under, _ in contacts(org)] == [account]


@pytest.mark.parametrize("name", ["Lead", "Contact"])
def test_whom_the_org_has_is_adopted_as_what_they_are(org: SandboxOrg, account: str, name: str) -> None:
    known = create(name, Email="one@customer.example")
    lead("one", account, first_name="Ada")
    drain()
    (found,) = all_of(org, "Lead") + all_of(org, "Contact")
    assert (found["Id"], found["FirstName"], found["Rota_Id__c"]) == (known, "Ada", "one")
    assert found.get("AccountId") is None  # nobody moved the contact to another account


def test_a_person_whom_the_org_has_under_another_key_of_rota_is_no_second_contact(
    org: SandboxOrg, account: str
) -> None:
    lead("one", account, email=EMAIL)
    drain()
    lead("two", account, email=EMAIL)  # closed, and came again
    drain()
    assert [key for key, _, _ in contacts(org)] == ["one"]
    assert [one["Rota_Id__c"] for one in org.records("Lead")] == ["two"]


def test_a_changed_choice_counts_from_the_next_lead_on_and_each_stays_what_it_is(org: SandboxOrg, account: str) -> None:
    lead("one", account)
    drain()
    choose("Lead")
    lead("two", account)
    drain()
    choose("Contact")
    lead("three", account)
    for key in ("one", "two", "three"):
        put(key, phone="+49307")
    drain()
    assert [key for key, _, _ in contacts(org)] == ["one", "three"]
    assert [one["Rota_Id__c"] for one in org.records("Lead")] == ["two"]
    assert {one["Phone"] for one in org.records("Contact") + org.records("Lead")} == {"+49307"}


def test_a_lead_whose_first_write_nobody_answered_stays_a_lead(org: SandboxOrg, account: str) -> None:
    choose("Lead")
    org.fault("commit_then_close", method="PATCH", path="/sobjects/Lead")
    message = lead("one", account)
    deliver(budget_s=5)
    assert again(message).status == "pending" and len(all_of(org, "Lead")) == 1
    choose("Contact")
    drain(seconds=20)
    assert again(message).status == "delivered"
    assert len(all_of(org, "Lead")) == 1 and all_of(org, "Contact") == []


def test_a_contact_whose_first_write_nobody_answered_is_created_once(org: SandboxOrg, account: str) -> None:
    org.fault("commit_then_close", method="PATCH", path="/sobjects/Contact")
    message = lead("one", account)
    drain(seconds=20)
    assert again(message).status == "delivered"
    assert len(all_of(org, "Contact")) == 1 and all_of(org, "Lead") == []


def decided_by_a_worker_that_died(key: str, account: str) -> OutboxMessage:
    """A lead that was found to become a contact, by a worker that got no further."""
    message = lead(key, account)
    looked = claim_next(worker="dead")
    assert looked is not None and looked.object == "Lead" and looked.rows[0].parent_keys == ()
    assert adopted(connect(), looked.rows) == {message.pk}
    age_claims()
    assert reap().claims == 1
    run_sql("UPDATE crmsync_lane SET quarantined_until = NULL, not_before = now()")
    return message


def test_it_holds_the_lane_of_the_account_from_its_first_write_on(org: SandboxOrg, account: str) -> None:
    decided_by_a_worker_that_died("one", account)
    chunk = claim_next(worker="w")
    assert chunk is not None
    (row,) = chunk.rows
    assert (chunk.object, chunk.operation, row.creating) == ("Contact", "upsert", True)
    assert row.parent_keys == (f"Account#{account}",)


def test_a_worker_that_dies_after_the_decision_costs_nothing(org: SandboxOrg, account: str) -> None:
    message = decided_by_a_worker_that_died("one", account)
    drain()
    assert again(message).status == "delivered"
    assert [key for key, _, _ in contacts(org)] == ["one"] and all_of(org, "Lead") == []


def test_refused_and_sent_again_it_still_has_its_account(org: SandboxOrg, account: str) -> None:
    rule = {"kind": "validation_rule", "object": "Contact", "name": "No_X", "field": "LastName", "value": "X"}
    org.ask("POST", "automation", {**rule, "message": "no"})
    message = lead("one", account, last_name="X", first_name="Ada")
    drain()
    assert again(message).status == "dead"
    put("one", last_name="Y")  # what comes first afterwards names no account, and creates the contact
    drain()
    assert contacts(org) == [("one", account, "Y")]
    assert retry_dead(message_ids=[message.pk], by="ops", reason="corrected").retried == 1
    drain()
    assert [(one["FirstName"], one["AccountId"]) for one in org.records("Contact")] == [("Ada", account)]
    assert statuses([message]) == ["retried"]


def test_an_account_deleted_after_the_question_is_a_dead_letter_and_sent_again_a_lead(
    org: SandboxOrg, account: str
) -> None:
    message = decided_by_a_worker_that_died("one", account)
    connect().call("DELETE", f"sobjects/Account/{account}", None, {})
    drain()
    message = again(message)
    assert (message.status, message.failure_code) == ("dead", "ENTITY_IS_DELETED")
    assert retry_dead(message_ids=[message.pk], by="ops", reason="as a lead").retried == 1
    drain()
    assert [one["Email"] for one in org.records("Lead")] == ["one@customer.example"]
    assert CrmRecord.objects.get().no_contact_because == f"The CRM has no Account {account}."


def test_its_record_once_deleted_is_forgotten_and_a_later_write_begins_anew(org: SandboxOrg, account: str) -> None:
    lead("one", account)
    drain()
    run_sql("SELECT outbox_enqueue('Lead', ARRAY['one'], ARRAY['{}'::jsonb], NULL, 0::smallint, 'delete')")
    drain()
    assert all_of(org, "Contact") == []
    record = CrmRecord.objects.get()
    assert (record.written_as, record.crm_id, record.parents, record.looked_up_at) == ("", None, [], None)
    choose("Lead")
    put("one", email=EMAIL)
    drain()
    assert [one["Rota_Id__c"] for one in org.records("Lead")] == ["one"]
