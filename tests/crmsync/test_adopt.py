"""Whom the org has already is adopted, not doubled: a lead, a contact, a lead that became a contact."""

from typing import Any

import pytest

from crmsync.gateway import connect
from crmsync.models import CrmRecord, OutboxMessage
from crmsync.moves.claim import claim_next
from tests.crmsync.rows import again, drain, put
from tests.crmsync.sandbox_org import SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)
USUAL = {"Lead": {"LastName": "Old", "Company": "Old Inc"}, "Contact": {"LastName": "Old"}, "Account": {"Name": "A"}}
EMAIL = "ada@customer.example"


def create(name: str, **fields: Any) -> str:
    """A record of somebody else's in the org."""
    usual = {
        "Lead": {"LastName": "Old", "Company": "Old Inc"},
        "Contact": {"LastName": "Old"},
        "Account": {"Name": "A"},
    }
    answer = connect().call("POST", f"sobjects/{name}", {**usual[name], **fields}, {})
    return str(answer["id"])


def all_of(org: SandboxOrg, name: str) -> list[dict[str, Any]]:
    return list(org.ask("GET", f"records/{name}")["records"])


def user(number: int = 0) -> str:
    return str(connect().query("SELECT Id FROM User WHERE IsActive = true ORDER BY Id")[number]["Id"])


def test_a_lead_that_the_org_has_is_updated_and_gets_rotas_key(org: SandboxOrg) -> None:
    known = create("Lead", Email=EMAIL.upper(), Phone="+49301")
    message = put("one", email=EMAIL, first_name="Ada")
    drain()
    (lead,) = all_of(org, "Lead")
    assert (lead["Id"], lead["Rota_Id__c"], lead["FirstName"], lead["Phone"]) == (known, "one", "Ada", "+49301")
    assert again(message).status == "delivered"
    put("one", first_name="Ada B")  # from now on Rota's key is enough
    drain()
    assert [lead["FirstName"] for lead in all_of(org, "Lead")] == ["Ada B"]


def test_a_contact_is_adopted_and_no_lead_is_made(org: SandboxOrg) -> None:
    account = create("Account")
    contact = create("Contact", Email=EMAIL, AccountId=account)
    put("one", email=EMAIL, first_name="Ada", company="Acme")
    drain()
    assert all_of(org, "Lead") == []
    (found,) = all_of(org, "Contact")
    assert (found["Id"], found["Rota_Id__c"], found["FirstName"]) == (contact, "one", "Ada")
    record = CrmRecord.objects.get(object="Lead", external_id="one")
    assert (record.written_as, record.crm_id) == ("Contact", contact)
    put("one", phone="+49302")
    drain()
    assert [found["Phone"] for found in all_of(org, "Contact")] == ["+49302"]


def test_writing_an_adopted_contact_holds_the_lane_of_its_account(org: SandboxOrg) -> None:
    account = create("Account")
    create("Contact", Email=EMAIL, AccountId=account)
    put("one", email=EMAIL)
    drain()
    put("one", phone="+49303")
    chunk = claim_next(worker="w")
    assert chunk is not None
    assert (chunk.object, chunk.rows[0].parent_keys) == ("Contact", (f"Account#{account}",))


def test_a_converted_lead_is_adopted_as_the_contact_it_became(org: SandboxOrg) -> None:
    lead, contact = create("Lead", Email=EMAIL), create("Contact", Email=EMAIL)
    create("Contact", Email=EMAIL, FirstName="Other")
    org.ask("POST", "convert", {"lead": lead, "contact": contact})
    put("one", email=EMAIL, first_name="Ada")
    drain()
    assert {found["Id"]: found["Rota_Id__c"] for found in all_of(org, "Contact")}[contact] == "one"
    assert [found["Rota_Id__c"] for found in all_of(org, "Lead")] == [None]


def test_a_lead_that_is_converted_later_is_written_as_its_contact(org: SandboxOrg) -> None:
    put("one", email=EMAIL)
    drain()
    contact = create("Contact", Email=EMAIL)
    org.ask("POST", "convert", {"lead": CrmRecord.objects.get().crm_id, "contact": contact})
    message = put("one", phone="+49304")
    drain()
    assert again(message).status == "delivered"
    assert [found["Phone"] for found in all_of(org, "Contact")] == ["+49304"]


def test_a_record_under_another_key_of_rota_is_left_alone(org: SandboxOrg) -> None:
    put("one", email=EMAIL)
    drain()
    put("two", email=EMAIL)
    drain()
    assert sorted(lead["Rota_Id__c"] for lead in all_of(org, "Lead")) == ["one", "two"]


def test_the_first_write_leaves_the_owner_that_was_there(org: SandboxOrg) -> None:
    theirs, ours = user(0), user(1)
    create("Lead", Email=EMAIL, OwnerId=theirs)
    put("one", email=EMAIL, owner=ours)
    drain()
    assert [lead["OwnerId"] for lead in all_of(org, "Lead")] == [theirs]
    put("one", owner=ours)  # a person's later word counts
    drain()
    assert [lead["OwnerId"] for lead in all_of(org, "Lead")] == [ours]


def test_the_org_is_asked_once_and_not_at_all_for_a_lead_without_an_address(org: SandboxOrg) -> None:
    asked: list[str] = []
    gateway = connect()
    gateway.session.hooks["response"].append(lambda response, **_: asked.append(response.request.url))
    try:
        put("one", email=EMAIL)
        drain()
        put("one", phone="+49305")
        put("two", phone="+49306", email=None)
        drain()
    finally:
        gateway.session.hooks["response"].pop()
    assert len([url for url in asked if "/query" in url]) == 2  # leads and contacts, before the first write


def test_of_many_new_leads_those_that_the_org_has_go_their_way_and_the_others_are_created(org: SandboxOrg) -> None:
    for number in range(0, 12, 3):
        create("Lead", Email=f"p{number}@customer.example")
    for number in range(12):
        put(f"k{number}", email=f"p{number}@customer.example")
    drain()
    leads = all_of(org, "Lead")
    assert len(leads) == 12
    assert sorted(lead["Rota_Id__c"] for lead in leads) == sorted(f"k{number}" for number in range(12))
    assert not OutboxMessage.objects.exclude(status="delivered").exists()


def test_an_org_that_does_not_answer_the_question_is_asked_again_and_nothing_is_doubled(org: SandboxOrg) -> None:
    create("Lead", Email=EMAIL)
    org.fault("unavailable", times=2, path="/query")
    message = put("one", email=EMAIL)
    drain()
    assert again(message).status == "delivered"
    assert len(all_of(org, "Lead")) == 1
