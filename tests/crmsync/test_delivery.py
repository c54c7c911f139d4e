"""What a worker does with the outbox, against a real org process."""

import time
from typing import Any

import pytest

from crmsync.flows.deliver import deliver
from crmsync.models import Attempt, Claim, Lane, OrgState, OutboxMessage
from crmsync.moves.claim import claim_next
from crmsync.moves.retry import retry_dead
from tests.crmsync.rows import again, drain, put, put_contacts, record_of, run_sql, statuses
from tests.crmsync.sandbox_org import SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_change_lands_under_its_external_id_and_comes_back_with_the_crm_id(org: SandboxOrg) -> None:
    message = put(email="zoë@customer.example", first_name="Zoë", last_name="£€ 日本", employees=12, unheard_of=1)
    drain()
    (record,) = org.records("Lead")
    assert record["Rota_Id__c"] == message.record.external_id
    assert (record["FirstName"], record["LastName"], record["NumberOfEmployees"]) == ("Zoë", "£€ 日本", 12)
    assert record_of(message).crm_id == record["Id"]
    assert again(message).status == "delivered"
    assert not Lane.objects.filter(claim__isnull=False).exists()
    assert list(Claim.objects.values_list("end_reason", flat=True)) == ["settled"]
    assert list(Attempt.objects.values_list("number", "outcome")) == [(1, "delivered")]


def test_a_lead_with_nothing_but_an_address_is_created_with_placeholders_and_keeps_later_values(
    org: SandboxOrg,
) -> None:
    put("one", email="a@customer.example")
    drain()
    put("one", company="Acme")
    drain()
    put("one", email="b@customer.example")
    drain()
    (record,) = org.records("Lead")
    assert (record["LastName"], record["Company"], record["Email"]) == (
        "[not provided]",
        "Acme",
        "b@customer.example",
    )


def test_two_hundred_rows_are_one_request_and_each_gets_its_own_id(org: SandboxOrg) -> None:
    messages = [put() for _ in range(200)]
    assert drain().chunks == 1
    assert len(org.journal()) == 1
    by_key = {record["Rota_Id__c"]: record["Id"] for record in org.records("Lead")}
    assert {record_of(message).external_id: record_of(message).crm_id for message in messages} == by_key


def test_the_org_is_told_who_calls_and_under_which_claim(org: SandboxOrg) -> None:
    put()
    deliver(budget_s=5, worker="host:7")
    (entry,) = org.journal()
    assert entry["who"]["client"] == "rota/host:7"
    assert entry["who"]["request_id"] == str(Claim.objects.get().token)


def test_parents_go_before_children_and_children_name_them(org: SandboxOrg) -> None:
    put("acme", object="Account", name="Acme")
    messages = put_contacts("acme", 3)
    drain()
    assert statuses(messages) == ["delivered"] * 3
    (account,) = org.records("Account")
    assert {record["AccountId"] for record in org.records("Contact")} == {account["Id"]}
    assert record_of(messages[0]).parents == [{"relation": "Account", "object": "Account", "external_id": "acme"}]


def test_a_child_enqueued_before_its_parent_waits_for_it(org: SandboxOrg) -> None:
    (child,) = put_contacts("late", 1)
    put("late", object="Account", name="Late")
    drain()
    assert again(child).status == "delivered"


def test_a_child_whose_parent_nobody_brings_is_refused(org: SandboxOrg) -> None:
    (child,) = put_contacts("nowhere", 1)
    drain()
    assert (again(child).status, again(child).failure_kind) == ("dead", "dependency")


def test_a_refused_row_dies_at_once_with_its_field_and_its_neighbours_land(org: SandboxOrg) -> None:
    bad = put("bad", email="not an address")
    good = [put() for _ in range(3)]
    drain()
    assert statuses(good) == ["delivered"] * 3
    dead = again(bad)
    assert (dead.status, dead.failure_kind, dead.attempts) == ("dead", "permanent", 1)
    assert (dead.failure_code, dead.failure_field) == ("INVALID_EMAIL_ADDRESS", "Email")
    assert not OutboxMessage.objects.lock_failures().exists()


def test_an_object_without_a_mapping_dies_alone(org: SandboxOrg) -> None:
    strange, good = put(object="Invoice"), put()
    drain()
    assert (again(strange).status, again(strange).failure_code) == ("dead", "NO_MAPPING")
    assert again(good).status == "delivered"


def test_a_row_that_makes_the_org_stumble_every_time_neither_stops_the_others_nor_lives_for_ever(
    org: SandboxOrg,
) -> None:
    org.fault("unavailable", times=1_000, path="Rota_Id__c/poison")
    poison = put("poison", object="Account", name="Poison")
    for n in range(40):
        put(f"good-{n}")
        deliver(budget_s=0.05)
        if again(poison).status == "dead":
            break
        time.sleep(0.05)
    assert (again(poison).status, again(poison).failure_kind) == ("dead", "transient")
    drain()
    assert len(org.records("Lead")) == n + 1


def test_a_lock_that_outlasts_all_patience_makes_lock_failures_and_a_retry_lands_one_of_three(
    org: SandboxOrg,
) -> None:
    messages = []
    for name in ("a", "b", "c"):
        put(name, object="Account", name=name)
        messages += put_contacts(name, 1)
    invalid = put("x", email="not an address")
    drain()
    assert statuses(messages) == ["delivered"] * 3
    hold = org.hold("Account", "a", "b", "c")
    changed = [put(message.record.external_id, object="Contact", last_name="New") for message in messages]
    drain(seconds=30)
    assert statuses(changed) == ["dead"] * 3
    assert set(OutboxMessage.objects.lock_failures()) == set(changed)
    assert again(invalid).failure_kind == "permanent"
    assert [again(message).attempts for message in changed] == [3] * 3
    org.let_go(hold)
    assert retry_dead(message_ids=[changed[1].pk], by="ada", reason="lock is gone").retried == 1
    drain()
    names = {record["Rota_Id__c"]: record["LastName"] for record in org.records("Contact")}
    assert names == {"a-0": "N0", "b-0": "New", "c-0": "N0"}
    assert statuses(changed) == ["dead", "retried", "dead"]


def test_a_lock_failure_waits_on_the_parent_and_sends_back_only_the_failed_rows(org: SandboxOrg) -> None:
    for name in ("held", "free"):
        put(name, object="Account", name=name)
    drain()
    held, free = put_contacts("held", 2), put_contacts("free", 2)
    hold = org.hold("Account", "held")
    first = deliver(budget_s=0.01)
    assert (first.delivered, first.put_back) == (2, 2)
    assert statuses(free) == ["delivered"] * 2
    lane = Lane.objects.get(key="Account:held")
    assert lane.failures > 0 and lane.not_before > again(held[0]).created_at
    assert Lane.objects.get(key="Account:free").failures == 0
    org.let_go(hold)
    drain()
    assert statuses(held) == ["delivered"] * 2


def test_an_answer_that_got_lost_is_sent_again_and_makes_no_second_record(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_QUARANTINE_S = 300  # over when the test says so
    message = put("lost")
    org.fault("commit_then_close", path="/sobjects/Lead/")
    done = deliver(budget_s=0.01)
    assert (done.put_back, again(message).failure_kind) == (1, "unanswered")
    assert Lane.objects.get(key="Lead:lost").quarantined_until is not None
    assert deliver(budget_s=1).chunks == 0
    run_sql("UPDATE crmsync_lane SET quarantined_until = NULL, not_before = now()")
    run_sql("UPDATE crmsync_outboxmessage SET due_at = now()")
    drain()
    assert [record["Rota_Id__c"] for record in org.records("Lead")] == ["lost"]
    assert list(Attempt.objects.order_by("pk").values_list("outcome", flat=True)) == ["unanswered", "delivered"]


def test_an_expired_token_is_renewed_once_and_charges_nothing(org: SandboxOrg) -> None:
    message = put()
    org.fault("expire_token")
    assert deliver(budget_s=5).delivered == 1
    assert again(message).attempts == 1


def test_an_org_that_keeps_refusing_the_token_pauses_and_charges_no_message(org: SandboxOrg) -> None:
    message = put()
    org.fault("expire_token", times=2)
    assert deliver(budget_s=5).put_back == 1
    assert "INVALID_SESSION_ID" in OrgState.objects.get().paused_reason
    assert again(message).attempts == 0
    drain()
    assert again(message).status == "delivered"
    assert OrgState.objects.get().paused_until is None


def test_a_wrong_secret_pauses_before_anything_is_begun(org: SandboxOrg, settings: Any) -> None:
    message = put()
    right, settings.CRM_CLIENT_SECRET = settings.CRM_CLIENT_SECRET, "wrong"
    assert deliver(budget_s=5).put_back == 1
    assert Claim.objects.get().begun_at is None
    assert OrgState.objects.get().paused_reason.startswith("Login refused: invalid_client")
    settings.CRM_CLIENT_SECRET = right
    drain()
    assert again(message).attempts == 1


def test_an_org_that_is_down_pauses_and_charges_no_message(org: SandboxOrg) -> None:
    messages = [put() for _ in range(3)]
    org.fault("unavailable", times=2)
    deliver(budget_s=0.01)
    assert OrgState.objects.get().paused_until is not None
    assert [again(message).attempts for message in messages] == [0] * 3
    drain()
    assert statuses(messages) == ["delivered"] * 3


def test_after_a_pause_one_chunk_probes_and_the_others_wait_for_it(org: SandboxOrg) -> None:
    put()
    put("mass", priority=1)
    org.fault("unavailable")
    deliver(budget_s=0.01)
    OrgState.objects.update(paused_until="2000-01-01T00:00Z")
    assert claim_next(worker="probe") is not None
    assert claim_next(worker="second") is None


def test_interactive_messages_go_first(org: SandboxOrg) -> None:
    mass, mine = put("mass", priority=1), put("mine")
    deliver(budget_s=0.001)
    assert statuses([mass, mine]) == ["pending", "delivered"]


def test_a_newer_version_waits_behind_the_one_that_is_being_sent(org: SandboxOrg) -> None:
    first = put("one", email="old@customer.example")
    assert claim_next(worker="slow") is not None
    second = put("one", email="new@customer.example")
    assert deliver(budget_s=1).chunks == 0
    assert statuses([first, second]) == ["claimed", "pending"]
