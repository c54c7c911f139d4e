"""Rota's field names become the org's."""

import json
from pathlib import Path
from typing import Any

from crmsync.mapping import MAPPING, PLACEHOLDER, body

SCHEMA = Path(__file__).resolve().parents[2] / "crmsync" / "sandbox" / "schema.json"


def lead(fields: dict[str, Any], *, creating: bool = False) -> dict[str, Any]:
    return body(object="Lead", fields=fields, parents=(), external_id_field="Rota_Id__c", creating=creating)


def test_every_mapped_field_exists_in_the_sandbox_org() -> None:
    objects = json.loads(SCHEMA.read_text())["objects"]
    for name, table in MAPPING.items():
        assert set(table.fields.values()) | set(table.required) <= set(objects[name]["fields"]), name


def test_what_rota_does_not_map_is_not_sent_and_null_empties() -> None:
    assert lead({"email": "a@b.example", "phone": None, "score": 7}) == {"Email": "a@b.example", "Phone": None}


def test_required_fields_get_a_placeholder_when_created_and_are_never_emptied() -> None:
    assert lead({}, creating=True) == {"LastName": PLACEHOLDER, "Company": PLACEHOLDER}
    assert lead({"company": None}) == {"Company": PLACEHOLDER}
    assert lead({"company": "Acme"}, creating=True) == {"LastName": PLACEHOLDER, "Company": "Acme"}


def test_parents_are_named_by_external_id_or_by_their_own_id() -> None:
    parents = [
        {"relation": "Account", "object": "Account", "external_id": "acme"},
        {"relation": "Rating__r", "object": "Rating__c", "crm_id": "a0X1"},
    ]
    sent = body(object="Contact", fields={}, parents=parents, external_id_field="Rota_Id__c", creating=False)
    assert sent == {"Account": {"Rota_Id__c": "acme"}, "Rating__c": "a0X1"}


def test_fields_of_campaign_mail_are_sent_only_to_an_org_that_has_them(settings: Any) -> None:
    told = {"email": "a@b.example", "last_campaign": "Spring", "last_campaign_step": 2}
    assert settings.CRM_MAIL_FIELDS == {}
    assert lead(told) == {"Email": "a@b.example"}
    own = {"last_campaign": "Last_Campaign__c", "email": "Other__c"}
    sent = body(object="Lead", fields=told, parents=(), external_id_field="Rota_Id__c", creating=False, own=own)
    assert sent == {"Email": "a@b.example", "Last_Campaign__c": "Spring"}


def test_a_text_longer_than_its_field_is_cut_for_the_crm_and_says_so() -> None:
    sent = body(
        object="Lead",
        fields={"first_name": "x" * 200, "last_name": "y" * 80, "company": "z" * 256, "employees": 7},
        parents=[],
        external_id_field="Rota_Id__c",
        creating=True,
    )
    assert sent["FirstName"] == "x" * 39 + "…" and sent["LastName"] == "y" * 80
    assert len(sent["Company"]) == 255 and sent["NumberOfEmployees"] == 7


def test_the_lengths_are_those_of_the_org() -> None:
    for name, table in MAPPING.items():
        fields = json.loads(SCHEMA.read_text())["objects"][name]["fields"]
        assert {field: fields[field]["length"] for field in table.lengths} == dict(table.lengths)
