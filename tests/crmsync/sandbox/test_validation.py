from collections.abc import Callable
from typing import Any

import pytest
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceError

from tests.crmsync.sandbox.conftest import Org

LEAD = {"LastName": "Reyes", "Company": "Acme"}
REFUSALS = [
    ({"Company": "Acme"}, "REQUIRED_FIELD_MISSING", "Required fields are missing: [LastName]", ["LastName"]),
    (
        {"LastName": ""},
        "REQUIRED_FIELD_MISSING",
        "Required fields are missing: [LastName, Company]",
        ["LastName", "Company"],
    ),
    (
        {**LEAD, "City": "x" * 41},
        "STRING_TOO_LONG",
        f"City: data value too large: {'x' * 41} (max length=40)",
        ["City"],
    ),
    ({**LEAD, "Email": "no mail"}, "INVALID_EMAIL_ADDRESS", "Email: invalid email address: no mail", ["Email"]),
    (
        {**LEAD, "Rating": "Tepid"},
        "INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST",
        "Rating: bad value for restricted picklist field: Tepid",
        ["Rating"],
    ),
    ({**LEAD, "Colour": 1}, "INVALID_FIELD", "No such column 'Colour' on sobject of type Lead", []),
    ({**LEAD, "Rota_Version__c": 10**18}, "NUMBER_OUTSIDE_VALID_RANGE", None, ["Rota_Version__c"]),
    ({**LEAD, "Rota_Version__c": "seven"}, "JSON_PARSER_ERROR", None, []),
    ({**LEAD, "Rota_Assigned_At__c": "yesterday"}, "JSON_PARSER_ERROR", None, []),
    ({**LEAD, "CreatedDate": "2026-01-01T00:00:00Z"}, "INVALID_FIELD_FOR_INSERT_UPDATE", None, ["CreatedDate"]),
    ({**LEAD, "OwnerId": "nobody"}, "MALFORMED_ID", "Owner ID: id value of incorrect type: nobody", ["OwnerId"]),
    ({**LEAD, "OwnerId": "00Q5R0000000001"}, "MALFORMED_ID", None, ["OwnerId"]),
    ({**LEAD, "OwnerId": "0055R0000000zzz"}, "INVALID_CROSS_REFERENCE_KEY", "invalid cross reference id", ["OwnerId"]),
]


@pytest.mark.parametrize(
    ("fields", "code", "message", "names"), REFUSALS, ids=[f"{r[1]}-{n}" for n, r in enumerate(REFUSALS)]
)
def test_a_bad_field_is_refused_with_salesforces_own_words(
    org: Org, sf: Salesforce, fields: dict[str, Any], code: str, message: str | None, names: list[str]
) -> None:
    with pytest.raises(SalesforceError) as refused:
        sf.Lead.create(fields)
    assert refused.value.status == 400
    (error,) = refused.value.content
    assert (error["errorCode"], error["fields"]) == (code, names)
    assert message is None or error["message"] == message
    assert org.journal()[-1]["errors"] == {code: 1}
    assert org.admin("GET", "records/Lead")["records"] == []


def test_an_inactive_user_owns_nothing_new(sf: Salesforce) -> None:
    users = sf.query("SELECT Id, IsActive FROM User WHERE Username = 'finn.larsen@rota.example'")["records"]
    assert users[0]["IsActive"] is False
    with pytest.raises(SalesforceError) as refused:
        sf.Lead.create({**LEAD, "OwnerId": users[0]["Id"]})
    assert refused.value.content[0]["errorCode"] == "INACTIVE_OWNER_OR_USER"


def test_what_names_no_owner_belongs_to_the_integration_user(sf: Salesforce) -> None:
    sf.Lead.create(LEAD)
    found = sf.query("SELECT Owner.Email FROM Lead")["records"]
    assert [lead["Owner"]["Email"] for lead in found] == ["integration@rota.example"]


def test_a_second_record_with_one_external_id_is_a_duplicate_value(sf: Salesforce) -> None:
    first = sf.Lead.create({**LEAD, "Rota_Id__c": "l-1"})["id"]
    with pytest.raises(SalesforceError) as refused:
        sf.Lead.create({**LEAD, "Rota_Id__c": "L-1"})
    (error,) = refused.value.content
    assert error["errorCode"] == "DUPLICATE_VALUE"
    assert error["message"] == f"duplicate value found: Rota_Id__c duplicates value on record with id: {first[:15]}"
    sf.Lead.delete(first)
    assert sf.Lead.create({**LEAD, "Rota_Id__c": "l-1"})["success"]


def test_the_external_id_of_the_address_does_not_belong_into_the_body(sf: Salesforce) -> None:
    with pytest.raises(SalesforceError) as refused:
        sf.Lead.upsert("Rota_Id__c/l-1", {**LEAD, "Rota_Id__c": "l-1"})
    assert refused.value.content[0]["message"] == "The Rota_Id__c field should not be specified in the sobject data."


def test_a_deleted_parent_is_refused(sf: Salesforce, make_account: Callable[[str], str]) -> None:
    account = make_account("a-1")
    sf.Account.delete(account)
    with pytest.raises(SalesforceError) as refused:
        sf.Contact.create({"LastName": "Okafor", "AccountId": account})
    assert refused.value.content[0]["errorCode"] == "ENTITY_IS_DELETED"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"LastName": NaN}', b'{"LastName": "\\ud800"}', b"\xff"])
def test_a_body_that_is_no_json_object_is_a_parser_error(sf: Salesforce, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {sf.session_id}"}
    response = sf.session.post(
        f"https://{sf.sf_instance}/services/data/v59.0/sobjects/Lead", data=body, headers=headers
    )
    assert (response.status_code, response.json()[0]["errorCode"]) == (400, "JSON_PARSER_ERROR")


def test_numbers_dates_and_flags_come_back_as_they_went_in(sf: Salesforce) -> None:
    fields = {
        "NumberOfEmployees": 12,
        "AnnualRevenue": 1500000,
        "HasOptedOutOfEmail": True,
        "Rota_Assigned_At__c": "2026-03-01T10:00:00.123+02:00",
        "Website": "",
    }
    lead = sf.Lead.get(sf.Lead.create({**LEAD, **fields})["id"])
    moment = {"Rota_Assigned_At__c": "2026-03-01T08:00:00.123+0000", "Website": None}
    assert {name: lead[name] for name in fields} == {**fields, **moment}
