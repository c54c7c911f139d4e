"""What the doctor says of an object's description, without an org."""

from dataclasses import replace
from typing import Any

import pytest

from crmsync.describe import FieldInfo, ObjectInfo
from crmsync.doctor.findings import Verdict
from crmsync.doctor.objects import accounts, examine_object
from crmsync.mapping import ObjectMapping

TABLE = ObjectMapping(fields={"email": "Email", "company": "Company"}, required=("Company",), lengths={"Company": 255})


def described(*, without: str = "", **changed: dict[str, Any]) -> ObjectInfo:
    fields = {
        "Email": FieldInfo("Email", "string", length=255),
        "Company": FieldInfo("Company", "string", length=255, nillable=False, needed=True),
        "Rota_Id__c": FieldInfo("Rota_Id__c", "string", length=255, external_id=True, unique=True),
    }
    for name, values in changed.items():
        fields[name] = replace(fields.get(name, FieldInfo(name, "string", length=255)), **values)
    fields.pop(without, None)
    return ObjectInfo("Lead", fields, {})


def wrong(described: ObjectInfo, own: dict[str, str] | None = None) -> list[tuple[str, Verdict]]:
    table = replace(TABLE, fields={**TABLE.fields, **(own or {})})
    found = examine_object(described, table, external_id_field="Rota_Id__c")
    assert all(each.fix for each in found if each.verdict != Verdict.OK)
    return [(each.step, each.verdict) for each in found if each.verdict != Verdict.OK]


def test_a_sound_object_has_no_finding_but_ok() -> None:
    assert wrong(described()) == []


@pytest.mark.parametrize(
    ("object", "step"),
    [
        (described(without="Rota_Id__c"), "Lead: Rota_Id__c"),
        (described(Rota_Id__c={"unique": False}), "Lead: Rota_Id__c"),
        (described(Rota_Id__c={"external_id": False}), "Lead: Rota_Id__c"),
        (described(Rota_Id__c={"length": 20}), "Lead: Rota_Id__c"),
        (described(Rota_Id__c={"updateable": False}), "Lead: Rota_Id__c"),
        (described(without="Email"), "Lead: fields"),
        (described(Email={"updateable": False}), "Lead: fields"),
        (described(Region__c={"nillable": False, "needed": True}), "Lead: required"),
        (replace(described(), createable=False), "Lead: access"),
        (replace(described(), updateable=False), "Lead: access"),
    ],
)
def test_what_would_have_a_record_refused_is_a_problem(object: ObjectInfo, step: str) -> None:
    assert wrong(object) == [(step, Verdict.PROBLEM)]


def test_a_short_field_is_a_warning() -> None:
    assert wrong(described(Company={"length": 80})) == [("Lead: fields", Verdict.WARNING)]


def test_a_required_field_with_a_default_or_filled_by_rota_is_no_finding() -> None:
    assert wrong(described(Region__c={"nillable": False})) == []


def test_a_field_of_this_org_that_a_person_mapped_has_to_exist() -> None:
    assert wrong(described(), {"last_campaign": "Last__c"}) == [("Lead: fields", Verdict.PROBLEM)]
    assert wrong(described(Last__c={}), {"last_campaign": "Last__c"}) == []


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        ({"email": "Email", "company": ""}, "Lead: required"),
        ({"email": "Email", "company": "Company", "x": "Rota_Id__c"}, "Lead: fields"),
        ({"email": "Revenue__c", "company": "Company"}, "Lead: fields"),
    ],
)
def test_it_looks_at_what_the_mapping_in_force_sends(fields: dict[str, str], step: str) -> None:
    table = replace(TABLE, fields={ours: theirs for ours, theirs in fields.items() if theirs})
    known = described(Revenue__c={"type": "currency"})
    found = [
        each for each in examine_object(known, table, external_id_field="Rota_Id__c") if each.verdict != Verdict.OK
    ]
    assert [(each.step, each.verdict) for each in found] == [(step, Verdict.PROBLEM)]


def test_an_owner_that_is_not_sent_fills_no_field() -> None:
    known = described(OwnerId={"type": "reference", "nillable": False, "needed": True})
    assert wrong(known) == [("Lead: required", Verdict.PROBLEM)]
    assert wrong(known, {"owner": "OwnerId"}) == []


def test_accounts_that_rota_only_reads_need_no_key_and_the_hint_says_who_would_need_it() -> None:
    known = replace(described(without="Rota_Id__c"), name="Account", createable=False)
    found = list(accounts(known, "Rota_Id__c"))
    assert {each.verdict for each in found} == {Verdict.OK}
    assert "names parents by Account.Rota_Id__c" in found[1].says and "Add a text field Rota_Id__c" in found[1].fix


def test_how_long_a_key_may_be_is_said_beside_how_long_those_of_rota_are() -> None:
    found = examine_object(described(Rota_Id__c={"length": 64}), TABLE, external_id_field="Rota_Id__c")
    (says,) = [each.says for each in found if each.step == "Lead: Rota_Id__c"]
    assert "It holds 64 characters; Rota's own keys have 36." in says
