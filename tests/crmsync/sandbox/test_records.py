import re
from collections.abc import Callable
from typing import Any

import pytest
import requests
from simple_salesforce import Salesforce, format_external_id
from simple_salesforce.exceptions import (
    SalesforceMalformedRequest,
    SalesforceMoreThanOneRecord,
    SalesforceResourceNotFound,
)

from tests.crmsync.sandbox.conftest import Org

LEAD = {"LastName": "Reyes", "Company": "Acme"}


def raw(sf: Salesforce, method: str, path: str, **kwargs: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {sf.session_id}", **kwargs.pop("headers", {})}
    return sf.session.request(method, f"https://{sf.sf_instance}{path}", headers=headers, **kwargs)


def test_a_record_is_made_read_changed_and_deleted_by_its_id(sf: Salesforce) -> None:
    made = sf.Lead.create({**LEAD, "FirstName": "Ada"})
    assert made["success"] and made["errors"] == [] and re.fullmatch(r"00Q\w{15}", made["id"])
    lead = sf.Lead.get(made["id"])
    assert lead["attributes"] == {"type": "Lead", "url": f"/services/data/v59.0/sobjects/Lead/{made['id']}"}
    assert (lead["Name"], lead["Status"], lead["HasOptedOutOfEmail"]) == ("Ada Reyes", "Open - Not Contacted", False)
    assert sf.Lead.update(made["id"][:15], {"Company": "Beta", "Rota_Version__c": 7}) == 204
    assert sf.Lead.get(made["id"])["Rota_Version__c"] == 7
    assert sf.Lead.delete(made["id"]) == 204
    with pytest.raises(SalesforceResourceNotFound) as gone:
        sf.Lead.get(made["id"])
    assert gone.value.content == [{"message": "entity is deleted", "errorCode": "ENTITY_IS_DELETED", "fields": []}]


def test_times_of_a_record_say_when_it_was_committed_to_the_millisecond(org: Org, sf: Salesforce) -> None:
    lead = sf.Lead.get(sf.Lead.create(LEAD)["id"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+0000", lead["CreatedDate"])
    assert lead["CreatedDate"] == lead["LastModifiedDate"] == lead["SystemModstamp"]
    assert org.journal()[-1]["committed_at"] == lead["CreatedDate"]


def test_an_upsert_makes_the_record_once_and_then_changes_it(org: Org, sf: Salesforce) -> None:
    made = sf.Lead.upsert("Rota_Id__c/l-1", LEAD, raw_response=True)
    changed = sf.Lead.upsert("Rota_Id__c/L-1", {"Company": "Beta"}, raw_response=True)
    assert (made.status_code, changed.status_code) == (201, 200)
    assert made.json() == {"id": made.json()["id"], "success": True, "errors": [], "created": True}
    assert changed.json() == {**made.json(), "created": False}
    (lead,) = org.admin("GET", "records/Lead")["records"]
    assert (lead["Company"], lead["Rota_Id__c"]) == ("Beta", "L-1")


def test_before_version_46_an_upsert_that_changes_answers_without_a_body(org: Org) -> None:
    old = org.client(version="45.0")
    assert old.Lead.upsert("Rota_Id__c/l-1", LEAD) == 201
    assert old.Lead.upsert("Rota_Id__c/l-1", LEAD) == 204


@pytest.mark.parametrize("external_id", ["a#b?c", "a/../b", "a b+c", "100%", "Zoë £€ 日本", "o'neil"])
def test_any_external_id_can_stand_in_the_address(org: Org, sf: Salesforce, external_id: str) -> None:
    key = format_external_id("Rota_Id__c", external_id)
    assert sf.Lead.upsert(key, {**LEAD, "Company": "Zoë £€ 日本 🦊"}) == 201
    assert sf.Lead.get(key)["Rota_Id__c"] == external_id
    assert sf.Lead.get(key)["Company"] == "Zoë £€ 日本 🦊"
    assert sf.Lead.delete(key) == 204
    assert org.admin("GET", "records/Lead")["records"] == []


def test_an_external_id_of_nothing_is_no_external_id(org: Org, sf: Salesforce) -> None:
    with pytest.raises(SalesforceMalformedRequest) as refused:
        sf.Lead.upsert("Rota_Id__c/%00", LEAD)
    assert refused.value.content[0]["errorCode"] == "MISSING_ARGUMENT"
    assert org.admin("GET", "records/Lead")["records"] == []


def test_an_external_id_that_is_not_unique_may_name_many_records(sf: Salesforce) -> None:
    made = [sf.Lead.create({**LEAD, "Legacy_Id__c": "old-7"})["id"] for _ in range(2)]
    for call in (
        lambda: sf.Lead.get("Legacy_Id__c/old-7"),
        lambda: sf.Lead.upsert("Legacy_Id__c/old-7", {"City": "X"}),
    ):
        with pytest.raises(SalesforceMoreThanOneRecord) as many:
            call()
        assert many.value.content == [f"/services/data/v59.0/sobjects/Lead/{each}" for each in made]


def test_a_parent_may_be_named_by_its_external_id(sf: Salesforce, make_account: Callable[[str], str]) -> None:
    account = make_account("a-1")
    contact = sf.Contact.create({"LastName": "Okafor", "Account": {"Rota_Id__c": "a-1"}})["id"]
    assert sf.Contact.get(contact)["AccountId"] == account
    with pytest.raises(SalesforceMalformedRequest) as refused:
        sf.Contact.create({"LastName": "Okafor", "Account": {"Rota_Id__c": "a-2"}})
    (error,) = refused.value.content
    assert error["errorCode"] == "INVALID_FIELD"
    assert error["message"] == "Foreign key external ID: a-2 not found for field Rota_Id__c in entity Account"


def test_what_is_not_there_is_not_found(sf: Salesforce) -> None:
    for call in (sf.Nothing.describe, lambda: sf.Lead.get("00Q5R0000000zzz"), lambda: sf.Lead.get("Rota_Id__c/none")):
        with pytest.raises(SalesforceResourceNotFound) as missing:
            call()
        assert missing.value.content == [{"message": "The requested resource does not exist", "errorCode": "NOT_FOUND"}]
    with pytest.raises(SalesforceResourceNotFound) as missing:
        sf.Lead.upsert("Colour__c/red", LEAD)
    assert "Colour__c" in missing.value.content[0]["message"]


def test_versions_outside_the_served_ones_are_refused(sf: Salesforce) -> None:
    retired = raw(sf, "GET", "/services/data/v30.0/limits/")
    assert (retired.status_code, retired.json()[0]["errorCode"]) == (410, "UNSUPPORTED_API_VERSION")
    assert raw(sf, "GET", "/services/data/v99.0/limits/").status_code == 404
    versions = sf.session.get(f"https://{sf.sf_instance}/services/data/").json()
    assert (versions[0]["version"], versions[-1]["version"]) == ("31.0", "67.0")
    assert {"label": "Winter '24", "url": "/services/data/v59.0", "version": "59.0"} in versions


def test_a_slash_at_the_end_makes_no_difference_and_pretty_print_indents(sf: Salesforce) -> None:
    for path in ("sobjects", "sobjects/Lead", "limits", "sobjects/Lead/describe"):
        plain, slash = (raw(sf, "GET", f"/services/data/v59.0/{path}{end}") for end in ("", "/"))
        assert plain.json() == slash.json() or path == "limits"
        assert re.fullmatch(r"api-usage=\d+/\d+", plain.headers["Sforce-Limit-Info"])
        assert "\n" not in plain.text
        assert "\n" in raw(sf, "GET", f"/services/data/v59.0/{path}", headers={"X-PrettyPrint": "1"}).text
    assert raw(sf, "PUT", "/services/data/v59.0/sobjects/Lead").json()[0]["errorCode"] == "METHOD_NOT_ALLOWED"


def test_an_object_describes_its_fields(sf: Salesforce) -> None:
    assert "Lead" in [each["name"] for each in sf.describe()["sobjects"]]
    fields = {field["name"]: field for field in sf.Contact.describe()["fields"]}
    assert fields["Rota_Id__c"]["externalId"] and fields["Rota_Id__c"]["unique"]
    assert fields["AccountId"]["referenceTo"] == ["Account"] and not fields["Name"]["createable"]
    assert sf.Lead.metadata()["objectDescribe"]["keyPrefix"] == "00Q"
