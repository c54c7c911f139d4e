"""Bulk API 1.0 in JSON by the unchanged client, in XML and CSV by hand."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceMalformedRequest

from tests.crmsync.sandbox.bulk import contacts
from tests.crmsync.sandbox.conftest import Org, new_account, running_org

JOB = "https://org/services/async/59.0/job"
AT_ONCE = ("--scale", "0", "--transaction-ms", "0", "--row-ms", "0")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client looks after every batch each five seconds and cannot be told otherwise."""
    monkeypatch.setattr("simple_salesforce.bulk.sleep", lambda seconds: time.sleep(0.02))


def leads(count: int) -> list[dict[str, Any]]:
    return [{"Rota_Id__c": f"l-{number}", "LastName": "Zoë", "Company": "C"} for number in range(count)]


class Job:
    """A job made by hand, in XML with CSV batches."""

    def __init__(self, sf: Salesforce, object: str, operation: str = "upsert", mode: str = "", **headers: str) -> None:
        self._sf = sf
        key = "<externalIdFieldName>Rota_Id__c</externalIdFieldName>" if operation == "upsert" else ""
        mode = f"<concurrencyMode>{mode}</concurrencyMode>" if mode else ""
        body = f"<operation>{operation}</operation><object>{object}</object>{key}{mode}<contentType>CSV</contentType>"
        made = self.call("POST", "", f'<jobInfo xmlns="urn:x">{body}</jobInfo>', **headers)
        assert made.status_code == 201, made.text
        self.id = tag(made.text, "id")

    def call(self, method: str, path: str, text: str = "", kind: str = "xml", **headers: str) -> requests.Response:
        headers = {"X-SFDC-Session": self._sf.session_id, "Content-Type": f"text/{kind}", **headers}
        return self._sf.session.request(method, JOB + path, data=text.encode(), headers=headers)

    def add(self, text: str) -> str:
        made = self.call("POST", f"/{self.id}/batch", text, "csv")
        assert made.status_code == 201, made.text
        return tag(made.text, "id")

    def until_done(self, batch: str) -> dict[str, str]:
        for _ in range(2_000):
            text = self.call("GET", f"/{self.id}/batch/{batch}").text
            if tag(text, "state") not in ("Queued", "InProgress"):
                return dict(re.findall(r"<(\w+)>([^<]*)<", text))
            time.sleep(0.01)
        raise AssertionError(text)


def tag(text: str, name: str) -> str:
    return re.findall(f"<{name}>([^<]*)</{name}>", text)[0]


def codes(results: list[dict[str, Any]]) -> list[str]:
    return [result["errors"][0]["statusCode"] if result["errors"] else "" for result in results]


def test_the_client_upserts_in_batches_with_results_in_order(org: Org, sf: Salesforce) -> None:
    rows = leads(25)
    rows[7]["LastName"] = None
    results = sf.bulk.Lead.upsert(rows, "Rota_Id__c", batch_size=10, use_serial=True)
    assert codes(results) == [*[""] * 7, "REQUIRED_FIELD_MISSING", *[""] * 17]
    assert all(result["created"] for result in results if result["success"])
    assert sorted(entry["rows"] for entry in org.journal()) == [5, 10, 10]
    again = sf.bulk.Lead.upsert(leads(1), "Rota_Id__c")
    assert (again[0]["id"], again[0]["created"]) == (results[0]["id"], False)


def test_the_client_inserts_updates_reads_and_deletes(sf: Salesforce) -> None:
    account = new_account(sf, "a-1")
    made = sf.bulk.Contact.insert([{"LastName": "K", "Account": {"Rota_Id__c": key}} for key in ("a-1", "none")])
    assert codes(made) == ["", "INVALID_FIELD"]
    (changed,) = sf.bulk.Contact.update([{"Id": made[0]["id"], "Title": "Head"}])
    assert changed["success"]
    (found,) = sf.bulk.Contact.query("SELECT Title, AccountId, Account.Name FROM Contact")
    assert (found["Title"], found["AccountId"], found["Account"]["Name"]) == ("Head", account, "a-1")
    assert sf.bulk.Contact.delete([{"Id": made[0]["id"]}])[0]["success"]
    assert list(sf.bulk.Contact.query("SELECT Id FROM Contact")) == []
    assert len(list(sf.bulk.Contact.query_all("SELECT Id FROM Contact"))) == 1


def test_xml_jobs_take_csv_batches_and_answer_in_csv(sf: Salesforce) -> None:
    job = Job(sf, "Lead")
    batch = job.add('Rota_Id__c,LastName,Company,Email\r\na,A,"C\nD",\r\nb,B,C,no mail\r\n')
    info = job.until_done(batch)
    assert (info["state"], info["numberRecordsProcessed"], info["numberRecordsFailed"]) == ("Completed", "2", "1")
    header, good, bad = job.call("GET", f"/{job.id}/batch/{batch}/result").text.splitlines()
    assert header == '"Id","Success","Created","Error"' and good.endswith('"true","true",""')
    assert bad == '"","false","false","INVALID_EMAIL_ADDRESS:Email: invalid email address: no mail:Email --"'
    assert tag(job.call("GET", f"/{job.id}/batch").text, "id") == batch
    closed = job.call("POST", f"/{job.id}", "<jobInfo><state>Closed</state></jobInfo>")
    assert (tag(closed.text, "state"), tag(closed.text, "numberBatchesCompleted")) == ("Closed", "1")
    refused = job.call("POST", f"/{job.id}/batch", "LastName\nx\n", "csv")
    assert (refused.status_code, tag(refused.text, "exceptionCode")) == (400, "InvalidJobState")


def test_xml_batches_are_read(org: Org, sf: Salesforce) -> None:
    headers = {"X-SFDC-Session": sf.session_id, "Content-Type": "application/xml"}
    ask = "<jobInfo><operation>insert</operation><object>Lead</object><contentType>XML</contentType></jobInfo>"
    job = tag(sf.session.post(JOB, data=ask, headers=headers).text, "id")
    record = (
        "<sObject><LastName>A &amp; B</LastName><Company>C</Company><NumberOfEmployees>7</NumberOfEmployees></sObject>"
    )
    made = sf.session.post(f"{JOB}/{job}/batch", data=f"<sObjects>{record}</sObjects>", headers=headers)
    path = f"{JOB}/{job}/batch/{tag(made.text, 'id')}"
    while tag(sf.session.get(path, headers=headers).text, "state") != "Completed":
        time.sleep(0.01)
    assert tag(sf.session.get(f"{path}/result", headers=headers).text, "success") == "true"
    (lead,) = org.admin("GET", "records/Lead")["records"]
    assert (lead["LastName"], lead["NumberOfEmployees"]) == ("A & B", 7)


def test_a_bad_session_is_a_400_here(org: Org, sf: Salesforce) -> None:
    org.admin("POST", "faults", {"kind": "expire_token", "path": "/services/async/"})
    with pytest.raises(SalesforceMalformedRequest) as refused:
        sf.bulk.Lead.insert(leads(1))
    assert refused.value.content == {"exceptionCode": "InvalidSessionId", "exceptionMessage": "Invalid session id"}


def test_a_batch_with_an_unknown_field_fails_as_a_whole(sf: Salesforce) -> None:
    job = Job(sf, "Lead")
    batch = job.add("Rota_Id__c,Nickname\na,A\n")
    info = job.until_done(batch)
    assert (info["state"], info["stateMessage"]) == ("Failed", "InvalidBatch : Field name not found : Nickname")
    refused = job.call("GET", f"/{job.id}/batch/{batch}/result")
    assert (refused.status_code, tag(refused.text, "exceptionMessage")) == (400, "Records not processed")


def test_an_aborted_job_does_not_process_what_waits(org: Org, sf: Salesforce) -> None:
    org.admin("POST", "faults", {"kind": "job_sticks"})
    job = Job(sf, "Lead", mode="Serial")
    first, second = (job.add(f"Rota_Id__c,LastName,Company\n{key},A,C\n") for key in "ab")
    assert tag(job.call("POST", f"/{job.id}", "<jobInfo><state>Aborted</state></jobInfo>").text, "state") == "Aborted"
    org.admin("DELETE", "faults")
    assert [job.until_done(batch)["state"] for batch in (first, second)] == ["NotProcessed"] * 2
    assert org.admin("GET", "records/Lead")["records"] == []


def test_parallel_batches_fight_over_a_parent_and_serial_ones_do_not(org: Org, sf: Salesforce) -> None:
    new_account(sf, "a-1")
    for mode, fights in (("Serial", False), ("Parallel", True)):
        seen = org.journal()[-1]["seq"]
        jobs = [Job(sf, "Contact", mode=mode) for _ in range(2)]
        batches = [job.add(contacts(["a-1"], 400, first=400 * number)) for number, job in enumerate(jobs)]
        assert {job.until_done(batch)["numberRecordsFailed"] for job, batch in zip(jobs, batches, strict=True)} == {"0"}
        entries = org.admin("GET", f"journal?after={seen}")["entries"]
        assert any(entry["waits"] for entry in entries) is fights


def test_more_than_a_hundred_lock_failures_send_the_rest_back_ten_times_at_most(tmp_path: Path) -> None:
    with running_org(tmp_path, *AT_ONCE) as org:
        sf = org.client()
        org.admin("POST", "locks", {"ids": [new_account(sf, "busy")]})
        job = Job(sf, "Contact")
        rows = contacts(["busy"], 2_600)
        batch = job.add(rows)
        info = job.until_done(batch)
        assert (info["state"], info["numberRecordsProcessed"], info["numberRecordsFailed"]) == (
            "Failed",
            "2200",
            "2200",
        )
        assert info["stateMessage"].startswith("TooManyLockFailure")
        assert tag(job.call("GET", f"/{job.id}").text, "numberRetries") == "10"
        path = f"/{job.id}/batch/{batch}/result"
        assert tag(job.call("GET", path).text, "exceptionMessage") == "Records not processed"
        org.admin("POST", "settings", {"bulk1_failed_batch_has_results": True})
        shown = job.call("GET", path).text
        assert (shown.count("UNABLE_TO_LOCK_ROW"), shown.count("NOT_PROCESSED")) == (2_200, 400)
        once = Job(sf, "Contact", **{"Sforce-Disable-Batch-Retry": "TRUE"})
        assert once.until_done(once.add(rows))["numberRecordsProcessed"] == "200"


def test_calls_that_make_no_sense_are_refused(org: Org, sf: Salesforce) -> None:
    headers = {"X-SFDC-Session": sf.session_id, "Content-Type": "application/json"}
    for body in (
        {"operation": "merge", "object": "Lead", "contentType": "JSON"},
        {"operation": "insert", "object": "Nothing", "contentType": "JSON"},
        {"operation": "upsert", "object": "Lead", "contentType": "JSON", "externalIdFieldName": "Company"},
        {"operation": "insert", "object": "Lead", "contentType": "JSON", "concurrencyMode": 7},
        [],
    ):
        refused = sf.session.post(JOB, json=body, headers=headers)
        assert (refused.status_code, refused.json()["exceptionCode"]) == (400, "InvalidJob")
    assert sf.session.get(f"{JOB}/750000000000001", headers=headers).json()["exceptionCode"] == "InvalidJob"
    job = Job(sf, "Lead", operation="insert")
    too_many = job.add("LastName,Company\n" + "A,C\n" * 10_001)
    assert job.until_done(too_many)["stateMessage"].startswith("InvalidBatch")
    org.admin("POST", "settings", {"bulk_batches_most": 1})
    quota = job.call("POST", f"/{job.id}/batch", "LastName,Company\nA,C\n", "csv")
    assert tag(quota.text, "exceptionCode") == "ExceededQuota"
