"""Rota's field names become the org's."""

import json
from pathlib import Path
from typing import Any

import pytest

from crmsync.field_map import mapping_of
from crmsync.mapping import MAPPING, PLACEHOLDER, ObjectMapping, body
from crmsync.models import FieldMapping

SCHEMA = Path(__file__).resolve().parents[2] / "crmsync" / "sandbox" / "schema.json"


def lead(fields: dict[str, Any], *, creating: bool = False) -> dict[str, Any]:
    return sent_as(MAPPING["Lead"], fields, creating=creating)


def sent_as(table: ObjectMapping, fields: dict[str, Any], *, creating: bool = False) -> dict[str, Any]:
    return body(table=table, fields=fields, parents=(), external_id_field="Rota_Id__c", creating=creating)


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
    table = MAPPING["Contact"]
    sent = body(table=table, fields={}, parents=parents, external_id_field="Rota_Id__c", creating=False)
    assert sent == {"Account": {"Rota_Id__c": "acme"}, "Rating__c": "a0X1"}


@pytest.mark.django_db
class TestWhatPeopleChanged:
    def test_fields_of_campaign_mail_are_sent_only_to_an_org_that_has_them(self, settings: Any) -> None:
        told = {"email": "a@b.example", "last_campaign": "Spring", "last_campaign_step": 2}
        assert settings.CRM_MAIL_FIELDS == {}
        assert sent_as(mapping_of("Lead"), told) == {"Email": "a@b.example"}
        settings.CRM_MAIL_FIELDS = {"last_campaign": "Last_Campaign__c"}
        assert sent_as(mapping_of("Lead"), told) == {"Email": "a@b.example", "Last_Campaign__c": "Spring"}
        assert sent_as(mapping_of("Contact"), told) == {"Email": "a@b.example"}

    def test_a_field_that_a_person_mapped_is_sent_and_one_mapped_to_nothing_is_not(self) -> None:
        FieldMapping.objects.create(object="Lead", ours="budget", theirs="Budget__c")
        FieldMapping.objects.create(object="Lead", ours="phone", theirs="")
        FieldMapping.objects.create(object="Lead", ours="company", theirs="Firm__c")
        told = {"budget": 7, "phone": "+1", "company": "Acme", "email": "a@b.example"}
        assert sent_as(mapping_of("Lead"), told) == {"Budget__c": 7, "Firm__c": "Acme", "Email": "a@b.example"}

    def test_what_the_org_requires_keeps_its_placeholder_when_its_field_is_mapped_away(self) -> None:
        FieldMapping.objects.create(object="Lead", ours="company", theirs="Firm__c")
        sent = sent_as(mapping_of("Lead"), {"company": "Acme", "last_name": "N"}, creating=True)
        assert sent == {"Firm__c": "Acme", "LastName": "N", "Company": PLACEHOLDER}

    def test_a_text_field_gets_a_text_no_longer_than_it_holds(self) -> None:
        FieldMapping.objects.create(object="Lead", ours="answers", theirs="Answers__c", kind="string", length=10)
        assert sent_as(mapping_of("Lead"), {"answers": ["a", "bcdefghij"]}) == {"Answers__c": '["a", "bc…'}
        assert sent_as(mapping_of("Lead"), {"answers": True}) == {"Answers__c": "true"}
        assert sent_as(mapping_of("Lead"), {"answers": None}) == {"Answers__c": None}


def test_a_text_longer_than_its_field_is_cut_for_the_crm_and_says_so() -> None:
    fields = {"first_name": "x" * 200, "last_name": "y" * 80, "company": "z" * 256, "employees": 7}
    sent = lead(fields, creating=True)
    assert sent["FirstName"] == "x" * 39 + "…" and sent["LastName"] == "y" * 80
    assert len(sent["Company"]) == 255 and sent["NumberOfEmployees"] == 7


def test_the_lengths_are_those_of_the_org() -> None:
    for name, table in MAPPING.items():
        fields = json.loads(SCHEMA.read_text())["objects"][name]["fields"]
        assert {field: fields[field]["length"] for field in table.lengths} == dict(table.lengths)
