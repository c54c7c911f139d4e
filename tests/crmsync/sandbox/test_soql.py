from collections.abc import Iterator
from typing import Any

import pytest
from simple_salesforce import Salesforce, format_soql
from simple_salesforce.exceptions import SalesforceMalformedRequest

from tests.crmsync.sandbox.conftest import Org, collect


@pytest.fixture(scope="module")
def asked(_hasty_org: Org) -> Iterator[Salesforce]:
    """A client of an org with a few leads, which the tests of this file only read."""
    _hasty_org.admin("POST", "reset")
    sf = _hasty_org.client()
    ada, ben = (row["Id"] for row in sf.query("SELECT Id FROM User WHERE Title = 'Sales rep' LIMIT 2")["records"])
    leads: list[dict[str, Any]] = [
        {"LastName": "Alpha", "City": "Oslo", "Rota_Version__c": 1, "OwnerId": ada},
        {"LastName": "beta", "City": "Rome", "Rota_Version__c": 2, "OwnerId": ada, "HasOptedOutOfEmail": True},
        {"LastName": "Gamma_1", "Rota_Version__c": 3, "OwnerId": ben, "Rota_Assigned_At__c": "2026-03-01T10:00:00Z"},
        {"LastName": "O'Neil", "City": "50% off", "OwnerId": ben},
    ]
    rows = [{"attributes": {"type": "Lead"}, "Company": "C", **lead} for lead in leads]
    assert all(result["success"] for result in collect(sf, "sobjects", rows, method="POST"))
    yield sf


def names(sf: Salesforce, where: str) -> list[str]:
    return [lead["LastName"] for lead in sf.query(f"SELECT LastName FROM Lead WHERE {where} ORDER BY Id")["records"]]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("LastName = 'BETA'", ["beta"]),
        ("LastName != 'beta'", ["Alpha", "Gamma_1", "O'Neil"]),
        ("City != 'Oslo'", ["beta", "Gamma_1", "O'Neil"]),
        ("City = null", ["Gamma_1"]),
        ("City <> NULL", ["Alpha", "beta", "O'Neil"]),
        ("Rota_Version__c >= 2 AND Rota_Version__c < 3.5", ["beta", "Gamma_1"]),
        ("NOT (Rota_Version__c > 1)", ["Alpha", "O'Neil"]),
        ("LastName LIKE 'a%' OR LastName LIKE '%TA'", ["Alpha", "beta"]),
        (r"LastName LIKE 'Gamma\_1' OR City LIKE '50\%%'", ["Gamma_1", "O'Neil"]),
        (r"LastName = 'O\'Neil'", ["O'Neil"]),
        ("LastName IN ('alpha', 'beta', 'delta')", ["Alpha", "beta"]),
        ("City NOT IN ('Oslo', 'Rome')", ["Gamma_1", "O'Neil"]),
        ("HasOptedOutOfEmail = TRUE", ["beta"]),
        ("Rota_Assigned_At__c > 2026-03-01T10:30:00+01:00", ["Gamma_1"]),
        ("Rota_Assigned_At__c >= 2026-03-01T10:00:00.001Z", []),
        ("Owner.Email = 'ada.reyes@rota.example' AND (City = 'Rome' OR City = 'Oslo')", ["Alpha", "beta"]),
        ("NOT Owner.Name LIKE 'Ada%'", ["Gamma_1", "O'Neil"]),
    ],
)
def test_conditions_find_what_they_should(asked: Salesforce, where: str, found: list[str]) -> None:
    assert names(asked, where) == found


def test_parents_are_shown_inside_the_record(asked: Salesforce) -> None:
    (lead,) = asked.query("SELECT Id, Owner.Email, owner.name FROM lead WHERE LastName = 'Alpha'")["records"]
    owner = lead["Owner"]
    assert (owner["Email"], owner["Name"]) == ("ada.reyes@rota.example", "Ada Reyes")
    assert lead["attributes"]["type"] == "Lead" and owner["attributes"]["type"] == "User"


def test_order_limit_and_offset(asked: Salesforce) -> None:
    def ordered(clauses: str) -> list[str]:
        return [lead["LastName"] for lead in asked.query(f"SELECT LastName FROM Lead {clauses}")["records"]]

    assert ordered("ORDER BY City DESC NULLS LAST LIMIT 2") == ["beta", "Alpha"]
    assert ordered("ORDER BY Owner.Name DESC, Rota_Version__c ASC LIMIT 2 OFFSET 1") == ["Gamma_1", "Alpha"]
    assert ordered("ORDER BY LastName LIMIT 0") == []


def test_count_and_ids_of_fifteen_characters(asked: Salesforce) -> None:
    assert asked.query("SELECT COUNT() FROM Lead WHERE City != null") == {"totalSize": 3, "done": True, "records": []}
    lead_id = asked.query("SELECT Id FROM Lead LIMIT 1")["records"][0]["Id"]
    found = asked.query(format_soql("SELECT Id FROM Lead WHERE Id IN {ids}", ids=[lead_id[:15]]))
    assert found["records"][0]["Id"] == lead_id


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("SELECT Id FROMM Lead", "MALFORMED_QUERY", "ERROR at Row:1:Column:11\nunexpected token: 'FROMM'"),
        ("SELECT FROM Lead", "MALFORMED_QUERY", "unexpected token: 'Lead'"),
        ("SELECT Id FROM Lead WHERE", "MALFORMED_QUERY", "unexpected token: '<EOF>'"),
        ("SELECT Id FROM Lead WHERE City = 'x", "MALFORMED_QUERY", "unexpected token: '''"),
        ("SELECT Id FROM Lead GROUP BY Id", "MALFORMED_QUERY", "unexpected token: 'GROUP'"),
        ("SELECT COUNT(Id) FROM Lead", "MALFORMED_QUERY", "unexpected token: 'Id'"),
        ("SELECT Id, (SELECT Id FROM Contacts) FROM Account", "MALFORMED_QUERY", "unexpected token: '('"),
        ("SELECT Id FROM Lead FOR UPDATE", "MALFORMED_QUERY", "unexpected token: 'FOR'"),
        ("SELECT Id FROM Lead WHERE CreatedDate = TODAY", "MALFORMED_QUERY", "unexpected token: 'TODAY'"),
        (
            "SELECT Id FROM Lead WHERE City = 'a' AND City = 'b' OR City = 'c'",
            "MALFORMED_QUERY",
            "unexpected token: 'OR'",
        ),
        ("SELECT Id, Id FROM Lead", "MALFORMED_QUERY", "duplicate field selected: Id"),
        ("SELECT Owner.Manager.Name FROM Lead", "MALFORMED_QUERY", "one parent deep"),
        (f"SELECT Id FROM Lead WHERE {'(' * 3000}", "MALFORMED_QUERY", "nested too deep"),
        ("SELECT Id FROM Lead LIMIT 99999999999999999999", "MALFORMED_QUERY", "unexpected token: '99"),
        (" ", "MALFORMED_QUERY", "A query string has to be specified"),
        ("SELECT Colour FROM Lead", "INVALID_FIELD", "No such column 'Colour' on entity 'Lead'"),
        ("SELECT Owner.Colour FROM Lead", "INVALID_FIELD", "No such column 'Colour' on entity 'User'"),
        ("SELECT Parent.Name FROM Lead", "INVALID_FIELD", "Didn't understand relationship 'Parent' in field path."),
        (
            "SELECT Id FROM Lead WHERE Rota_Version__c = '1'",
            "INVALID_FIELD",
            "must be of type double and should not be",
        ),
        (
            "SELECT Id FROM Lead WHERE City = 1",
            "INVALID_FIELD",
            "must be of type string and should be enclosed in quotes",
        ),
        ("SELECT Id FROM Lead WHERE CreatedDate > 2026-03-01", "INVALID_FIELD", "must be of type datetime"),
        ("SELECT Id FROM Lead WHERE Id = 'x'", "INVALID_QUERY_FILTER_OPERATOR", "invalid ID field: x"),
        ("SELECT Id FROM Nothing", "INVALID_TYPE", "sObject type 'Nothing' is not supported."),
        ("SELECT Id FROM Lead OFFSET 2001", "NUMBER_OUTSIDE_VALID_RANGE", "Maximum SOQL offset allowed is 2000"),
    ],
)
def test_everything_else_is_refused_and_never_guessed(asked: Salesforce, query: str, code: str, text: str) -> None:
    with pytest.raises(SalesforceMalformedRequest) as refused:
        asked.query(query)
    (error,) = refused.value.content
    assert error["errorCode"] == code
    assert text in error["message"]


def test_long_results_come_in_pages_of_two_thousand(org: Org, sf: Salesforce) -> None:
    for start in range(0, 2200, 200):
        rows = [{"attributes": {"type": "Account"}, "Name": f"A{number}"} for number in range(start, start + 200)]
        assert all(result["success"] for result in collect(sf, "sobjects", rows, method="POST"))
    first = sf.query("SELECT Name FROM Account")
    assert (first["totalSize"], first["done"], len(first["records"])) == (2200, False, 2000)
    sf.Account.create({"Name": "too late"})
    rest = sf.query_more(first["nextRecordsUrl"], identifier_is_url=True)
    assert (rest["totalSize"], rest["done"], len(rest["records"])) == (2200, True, 200)
    assert len({row["Name"] for row in sf.query_all("SELECT Name FROM Account")["records"]}) == 2201
    with pytest.raises(SalesforceMalformedRequest) as refused:
        sf.query_more("01g5R0000000zzz-2000")
    assert refused.value.content[0]["errorCode"] == "INVALID_QUERY_LOCATOR"
