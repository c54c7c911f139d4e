"""Faults by rule: which calls they meet, what each does; limits; people who save the same records."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceError, SalesforceExpiredSession, SalesforceRefusedRequest

from tests.crmsync.sandbox.bulk import Ingest, table
from tests.crmsync.sandbox.conftest import Org, new_account, running_org

LEAD = {"LastName": "Reyes", "Company": "Acme"}
LIMITS = {"concurrent_limit": "ConcurrentRequests", "daily_limit": "TotalRequests"}


def fault(org: Org, kind: str, **more: Any) -> None:
    org.admin("POST", "faults", {"kind": kind, **more})


def leads(org: Org) -> int:
    return len(org.admin("GET", "records/Lead")["records"])


def test_a_rule_meets_the_nth_call_of_its_method_and_object(org: Org, sf: Salesforce) -> None:
    fault(org, "unavailable", method="POST", object="lead", nth=2, status=500)
    assert sf.Account.create({"Name": "A"})["success"] and sf.query("SELECT Id FROM Lead")["done"]
    assert sf.Lead.create(LEAD)["success"]
    with pytest.raises(SalesforceError) as refused:
        sf.Lead.create(LEAD)
    assert refused.value.status == 500
    assert sf.Lead.create(LEAD)["success"] and leads(org) == 2


def test_a_rule_by_chance_meets_the_same_calls_for_the_same_seed(org: Org, sf: Salesforce) -> None:
    seen = []
    for _ in range(2):
        org.admin("DELETE", "faults")
        fault(org, "unavailable", probability=0.5, seed=7, forever=True, path="/limits")
        url = f"{org.url}/services/data/v59.0/limits"
        headers = {"Authorization": f"Bearer {sf.session_id}"}
        seen.append([org.http.get(url, headers=headers).status_code for _ in range(20)])
    assert seen[0] == seen[1] and set(seen[0]) == {200, 503}


def test_the_org_may_commit_long_after_the_client_has_gone(org: Org, sf: Salesforce) -> None:
    fault(org, "commit_later", seconds=0.4)
    with pytest.raises(requests.ReadTimeout):
        sf.restful("sobjects/Lead/Rota_Id__c/l-1", method="PATCH", json=LEAD, timeout=0.1)
    assert leads(org) == 0
    for _ in range(500):
        if leads(org):
            break
        time.sleep(0.01)
    assert leads(org) == 1
    assert sf.Lead.upsert("Rota_Id__c/l-1", LEAD) == 200


def test_an_answer_may_come_too_late(org: Org, sf: Salesforce) -> None:
    fault(org, "answer_late", seconds=0.5)
    with pytest.raises(requests.ReadTimeout):
        sf.restful("sobjects/Lead/Rota_Id__c/l-1", method="PATCH", json=LEAD, timeout=0.2)
    assert leads(org) == 1


def test_an_answer_may_be_cut_short(org: Org, sf: Salesforce) -> None:
    fault(org, "cut_short")
    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        sf.Lead.create(LEAD)
    assert leads(org) == 1


def test_a_call_may_be_delivered_twice(org: Org, sf: Salesforce) -> None:
    fault(org, "twice")
    assert sf.Lead.create(LEAD)["success"] and leads(org) == 2
    fault(org, "twice")
    assert sf.Lead.upsert("Rota_Id__c/l-1", LEAD) == 200 and leads(org) == 3


def test_a_401_may_last_for_ever(org: Org, sf: Salesforce) -> None:
    plain = Salesforce(session=sf.session, session_id=sf.session_id, instance_url=f"https://{sf.sf_instance}")
    fault(org, "unauthorized", forever=True)
    for _ in range(3):
        with pytest.raises(SalesforceExpiredSession):
            plain.query("SELECT Id FROM Lead")
    org.admin("DELETE", "faults")
    assert plain.query("SELECT Id FROM Lead")["done"]


@pytest.mark.parametrize("kind", LIMITS)
def test_a_limit_may_be_said_to_be_reached(org: Org, sf: Salesforce, kind: str) -> None:
    fault(org, kind)
    with pytest.raises(SalesforceRefusedRequest) as refused:
        sf.Lead.create(LEAD)
    (error,) = refused.value.content
    assert error["errorCode"] == "REQUEST_LIMIT_EXCEEDED" and error["message"].startswith(LIMITS[kind])


def test_a_busy_server_may_say_when_to_come_back(org: Org, sf: Salesforce) -> None:
    fault(org, "unavailable", status=429, seconds=3)
    response = org.http.get(f"{org.url}/services/data/v59.0/limits")
    assert (response.status_code, response.headers["Retry-After"]) == (429, "3")


def test_the_reply_to_a_closed_job_may_be_lost_and_the_job_still_runs(org: Org, sf: Salesforce) -> None:
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    job.put(table("Rota_Id__c,LastName,Company", "l-1,L,C"))
    fault(org, "commit_then_close", method="PATCH", path="/jobs/ingest/")
    with pytest.raises(requests.ConnectionError):
        job.become("UploadComplete")
    assert job.until("JobComplete")["numberRecordsProcessed"] == 1


def test_results_may_lack_rows_come_without_charset_or_not_at_all(org: Org, sf: Salesforce) -> None:
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    job.run(table("Rota_Id__c,LastName,Company", *(f"l-{number},L,C" for number in range(5))))
    fault(org, "rows_missing", path="/successfulResults")
    assert len(job.rows("successfulResults")) == 4
    fault(org, "no_charset", path="/successfulResults")
    assert job.step("GET", f"/{job.id}/successfulResults").headers["Content-Type"] == "text/csv"
    fault(org, "no_content", path="/successfulResults")
    assert job.step("GET", f"/{job.id}/successfulResults").status_code == 204
    assert len(job.rows("successfulResults")) == 5


def test_the_calls_of_a_day_and_the_records_of_an_org_may_run_out(org: Org, sf: Salesforce) -> None:
    users = len(org.admin("GET", "records/User")["records"])
    org.admin("POST", "settings", {"records_most": users + 1})
    assert sf.Lead.create(LEAD)["success"]
    with pytest.raises(SalesforceError) as full:
        sf.Lead.create(LEAD)
    assert full.value.content[0]["errorCode"] == "STORAGE_LIMIT_EXCEEDED"
    org.admin("POST", "settings", {"daily_calls_most": 3})
    assert sf.limits()["DailyApiRequests"] == {"Max": 3, "Remaining": 0}
    with pytest.raises(SalesforceRefusedRequest) as refused:
        sf.limits()
    assert refused.value.content[0]["message"] == "TotalRequests Limit exceeded."


def test_too_many_long_calls_at_once_are_refused(tmp_path: Path) -> None:
    with running_org(tmp_path, "--set", "long_calls_most=2", "--set", "long_call_s=0.05") as org:
        sf = org.client()
        account = new_account(sf, "a-1")
        hold = org.admin("POST", "locks", {"ids": [account]})["id"]
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(sf.Account.update, account, {"Phone": "1"}) for _ in range(2)]
            org.until_waiting(2)
            time.sleep(0.06)
            with pytest.raises(SalesforceRefusedRequest) as refused:
                sf.query("SELECT Id FROM Lead")
            org.admin("DELETE", f"locks/{hold}")
            assert [each.result() for each in waiting] == [204, 204]
        assert refused.value.content[0]["message"].startswith("ConcurrentRequests")
        assert sf.query("SELECT Id FROM Lead")["done"]


def test_people_who_save_the_same_records_make_a_client_wait(org: Org) -> None:
    sf = org.client("ours")
    account = new_account(sf, "a-1")
    org.admin("POST", "writers", {"object": "Account", "count": 3, "hold_ms": 30, "rest_ms": 1, "seed": 5})
    for number in range(10):
        assert sf.Contact.create({"LastName": f"K{number}", "AccountId": account})["success"]
    assert org.admin("DELETE", "writers") == {"stopped": 3}
    entries = org.journal()
    theirs = {entry["number"] for entry in entries if entry["method"] == "SAVE"}
    waited = {number for entry in org.journal("ours") for number in entry["waited_for"]}
    assert waited and waited <= theirs
    assert org.admin("GET", "locks")["locks"] == []
    assert "error" in org.admin("POST", "writers", {"object": "Nothing"}, status=400)


def test_a_reset_sends_everybody_home(org: Org) -> None:
    new_account(org.client(), "a-1")
    org.admin("POST", "writers", {"object": "Account", "hold_ms": 60_000, "rest_ms": 0})
    until = time.monotonic() + 5
    while not org.admin("GET", "locks")["locks"] and time.monotonic() < until:
        threading.Event().wait(0.01)
    org.admin("POST", "reset")
    assert org.admin("GET", "locks")["locks"] == [] and org.journal() == []
