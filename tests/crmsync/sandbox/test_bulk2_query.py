"""Bulk API 2.0 query: jobs that read."""

import pytest
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceMalformedRequest

from tests.crmsync.sandbox.conftest import Org, collect


def test_a_query_job_gives_its_rows_in_pages(sf: Salesforce) -> None:
    rows = [
        {"attributes": {"type": "Lead"}, "LastName": f"L{number}", "Company": 'a "b"\nc', "Rota_Id__c": f"l-{number}"}
        for number in range(25)
    ]
    collect(sf, "sobjects/Lead/Rota_Id__c", rows)
    pages = list(
        sf.bulk2.Lead.query("SELECT Rota_Id__c, Company, Owner.Name, IsDeleted FROM Lead", max_records=10, wait=0)
    )
    assert len(pages) == 3
    lines = pages[0].split("\n", 1)
    assert lines[0] == '"Rota_Id__c","Company","Owner.Name","IsDeleted"'
    assert lines[1].startswith('"l-0","a ""b""\nc","Rota Integration","false"')


def test_only_query_all_finds_deleted_records(org: Org, sf: Salesforce) -> None:
    sf.Lead.delete(sf.Lead.create({"LastName": "L", "Company": "C"})["id"])
    (none,) = sf.bulk2.Lead.query("SELECT LastName FROM Lead", wait=0)
    (one,) = sf.bulk2.Lead.query_all("SELECT LastName FROM Lead", wait=0)
    assert (none, one) == ('"LastName"\n', '"LastName"\n"L"\n')
    assert sf.query_all("SELECT Id FROM Lead", include_deleted=True)["totalSize"] == 1
    assert sf.query_all("SELECT Id FROM Lead")["totalSize"] == 0


def test_a_query_that_cannot_be_read_makes_no_job(sf: Salesforce) -> None:
    for text in ("SELECT Nothing FROM Lead", "SELECT COUNT() FROM Lead", "SELECT"):
        with pytest.raises(SalesforceMalformedRequest) as refused:
            next(iter(sf.bulk2.Lead.query(text)))
        assert refused.value.content[0]["errorCode"] == "API_ERROR"
