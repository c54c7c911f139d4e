from collections.abc import Callable
from typing import Any

import pytest
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceError, SalesforceResourceNotFound

from tests.crmsync.sandbox.conftest import Org, collect

UPSERT = "sobjects/Lead/Rota_Id__c"


def lead(number: int, **more: Any) -> dict[str, Any]:
    return {
        "attributes": {"type": "Lead"},
        "LastName": f"L{number}",
        "Company": "C",
        "Rota_Id__c": f"l-{number}",
        **more,
    }


def codes(results: list[dict[str, Any]]) -> list[str]:
    return [result["errors"][0]["statusCode"] if result["errors"] else "" for result in results]


def test_two_hundred_rows_are_upserted_in_one_transaction_with_results_in_order(org: Org, sf: Salesforce) -> None:
    made = collect(sf, UPSERT, [lead(number) for number in range(200)])
    assert all(result["success"] and result["created"] and result["errors"] == [] for result in made)
    changed = collect(sf, UPSERT, [lead(number) for number in reversed(range(200))])
    assert [result["id"] for result in changed] == [result["id"] for result in reversed(made)]
    assert not any(result["created"] for result in changed)
    assert [(entry["rows"], entry["outcome"]) for entry in org.journal()] == [(200, "committed")] * 2


def test_more_than_two_hundred_rows_are_refused_as_a_whole(org: Org, sf: Salesforce) -> None:
    with pytest.raises(SalesforceError) as refused:
        collect(sf, UPSERT, [lead(number) for number in range(201)])
    assert (refused.value.status, refused.value.content[0]["errorCode"]) == (400, "EXCEEDED_ID_LIMIT")
    assert org.journal() == []


def test_a_bad_row_fails_alone(org: Org, sf: Salesforce) -> None:
    results = collect(sf, UPSERT, [lead(1), lead(2, Email="no mail"), lead(3)])
    assert codes(results) == ["", "INVALID_EMAIL_ADDRESS", ""]
    assert results[1] == {
        "success": False,
        "errors": [
            {
                "statusCode": "INVALID_EMAIL_ADDRESS",
                "message": "Email: invalid email address: no mail",
                "fields": ["Email"],
            }
        ],
        "created": False,
    }
    (entry,) = org.journal()
    assert (entry["outcome"], entry["succeeded"], entry["failed"]) == ("partial", 2, 1)
    assert [record["LastName"] for record in org.admin("GET", "records/Lead")["records"]] == ["L1", "L3"]


def test_all_or_none_rolls_back_the_good_rows(org: Org, sf: Salesforce) -> None:
    results = collect(sf, UPSERT, [lead(1), lead(2, Email="no mail"), lead(3)], allOrNone=True)
    rolled_back = "ALL_OR_NONE_OPERATION_ROLLED_BACK"
    assert codes(results) == [rolled_back, "INVALID_EMAIL_ADDRESS", rolled_back]
    assert not any("id" in result for result in results)
    assert org.admin("GET", "records/Lead")["records"] == []
    assert org.journal()[-1]["outcome"] == "refused"


def test_rows_are_made_changed_and_deleted_by_id(org: Org, sf: Salesforce) -> None:
    rows = [lead(1), {"attributes": {"type": "Account"}, "Name": "Acme"}, lead(1)]
    made = collect(sf, "sobjects", rows, method="POST")
    assert codes(made) == ["", "", "DUPLICATE_VALUE"] and "created" not in made[0]
    changes = [{"attributes": {"type": "Lead"}, "id": each} for each in (made[0]["id"], "00Q5R0000000zzz", "x")]
    changed = collect(sf, "sobjects", [*changes, {"attributes": {"type": "Lead"}}])
    assert codes(changed) == ["", "INVALID_CROSS_REFERENCE_KEY", "MALFORMED_ID", "MISSING_ARGUMENT"]
    named = f"{made[0]['id']},{made[1]['id']},{made[0]['id']}"
    deleted = sf.restful("composite/sobjects", method="DELETE", params={"ids": named})
    assert codes(deleted) == ["", "", "ENTITY_IS_DELETED"]
    assert org.admin("GET", "records/Lead")["records"] == org.admin("GET", "records/Account")["records"] == []


def test_one_external_id_twice_in_one_call_is_a_duplicate(sf: Salesforce) -> None:
    results = collect(sf, UPSERT, [lead(1), lead(2), lead(1, City="X")])
    assert codes(results) == ["", "", "DUPLICATE_VALUE"]
    assert results[2]["errors"][0]["message"] == "Duplicate external id specified: l-1"


def test_a_row_without_its_external_id_is_refused(sf: Salesforce) -> None:
    row = {"attributes": {"type": "Lead"}, "LastName": "L", "Company": "C"}
    assert codes(collect(sf, UPSERT, [row, lead(2)])) == ["MISSING_ARGUMENT", ""]
    rolled_back = "ALL_OR_NONE_OPERATION_ROLLED_BACK"
    assert codes(collect(sf, UPSERT, [row, lead(3)], allOrNone=True)) == ["MISSING_ARGUMENT", rolled_back]


def test_calls_that_cannot_be_read_are_refused_as_a_whole(sf: Salesforce) -> None:
    account = {"attributes": {"type": "Account"}, "Name": "Acme", "Rota_Id__c": "a"}
    for path, rows, code in [
        (UPSERT, [lead(1), account], "MISMATCHING_TYPES"),
        (UPSERT, [{"Rota_Id__c": "l-1"}], "MISSING_ARGUMENT"),
        (UPSERT, [], "MISSING_ARGUMENT"),
        ("sobjects", [{"attributes": {"type": "Nothing"}}], "INVALID_TYPE"),
    ]:
        with pytest.raises(SalesforceError) as refused:
            collect(sf, path, rows)
        assert (refused.value.status, refused.value.content[0]["errorCode"]) == (400, code)
    with pytest.raises(SalesforceResourceNotFound):
        collect(sf, "sobjects/Lead/Company", [lead(1)])


def test_children_find_their_parents_by_external_id(sf: Salesforce, make_account: Callable[[str], str]) -> None:
    account = make_account("a-1")
    rows = [
        {"attributes": {"type": "Contact"}, "LastName": "K", "Rota_Id__c": f"c-{key}", "Account": {"Rota_Id__c": key}}
        for key in ("a-1", "a-2")
    ]
    results = collect(sf, "sobjects/Contact/Rota_Id__c", rows)
    assert codes(results) == ["", "INVALID_FIELD"]
    assert sf.Contact.get(results[0]["id"])["AccountId"] == account
