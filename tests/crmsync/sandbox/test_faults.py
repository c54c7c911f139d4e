import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceExpiredSession, SalesforceGeneralError

from tests.crmsync.sandbox.conftest import Org

LEAD = {"LastName": "Reyes", "Company": "Acme"}


def test_a_connection_closed_before_processing_leaves_nothing_behind(org: Org, sf: Salesforce) -> None:
    org.admin("POST", "faults", {"kind": "close_before"})
    with pytest.raises(requests.ConnectionError):
        sf.Lead.upsert("Rota_Id__c/l-1", LEAD)
    assert org.admin("GET", "records/Lead")["records"] == [] and org.journal() == []
    assert sf.Lead.upsert("Rota_Id__c/l-1", LEAD) == 201


def test_a_commit_without_an_answer_is_there_when_the_client_comes_back(org: Org, sf: Salesforce) -> None:
    org.admin("POST", "faults", {"kind": "commit_then_close"})
    with pytest.raises(requests.ConnectionError):
        sf.Lead.upsert("Rota_Id__c/l-1", LEAD)
    assert [entry["outcome"] for entry in org.journal()] == ["committed"]
    assert sf.Lead.upsert("Rota_Id__c/l-1", LEAD) == 200
    assert len(org.admin("GET", "records/Lead")["records"]) == 1


def test_an_unavailable_org_answers_with_a_page(org: Org, sf: Salesforce) -> None:
    org.admin("POST", "faults", {"kind": "unavailable", "times": 2})
    for _ in range(2):
        with pytest.raises(SalesforceGeneralError) as refused:
            sf.Lead.create(LEAD)
        assert refused.value.status == 503 and "<html>" in str(refused.value.content)
    assert sf.Lead.create(LEAD)["success"]


def test_an_expired_token_makes_the_client_log_in_again(org: Org, sf: Salesforce) -> None:
    before = sf.session_id
    org.admin("POST", "faults", {"kind": "expire_token"})
    assert sf.Lead.create(LEAD)["success"]
    assert sf.session_id != before
    headers = {"Authorization": f"Bearer {before}"}
    assert org.http.get(f"{org.url}/services/data/v59.0/limits", headers=headers).status_code == 401
    assert len(org.admin("GET", "records/Lead")["records"]) == 1


def test_a_session_held_by_hand_is_not_renewed(org: Org, sf: Salesforce) -> None:
    plain = Salesforce(session=sf.session, session_id=sf.session_id, instance_url=f"https://{sf.sf_instance}")
    org.admin("POST", "faults", {"kind": "expire_token"})
    with pytest.raises(SalesforceExpiredSession) as expired:
        plain.query("SELECT Id FROM Lead")
    assert expired.value.content == [{"message": "Session expired or invalid", "errorCode": "INVALID_SESSION_ID"}]


def test_a_fault_may_be_meant_for_some_paths_only(org: Org, sf: Salesforce) -> None:
    org.admin("POST", "faults", {"kind": "unavailable", "path": "/composite/"})
    assert sf.Lead.create(LEAD)["success"]
    with pytest.raises(SalesforceGeneralError):
        sf.restful("composite/sobjects", method="POST", json={"records": []})
    org.admin("POST", "faults", {"kind": "unavailable", "times": 5, "path": "/oauth2/token"})
    assert org.admin("GET", "faults")["faults"] == [{"kind": "unavailable", "times": 5, "path": "/oauth2/token"}]
    org.admin("DELETE", "faults")
    assert org.client().query("SELECT COUNT() FROM Lead")["totalSize"] == 1


def test_a_fault_that_does_not_exist_is_refused(org: Org) -> None:
    for body in ({"kind": "earthquake"}, {"kind": "unavailable", "times": 0}, {"kind": "unavailable", "when": "now"}):
        assert "error" in org.admin("POST", "faults", body, status=400)
    assert org.admin("GET", "faults")["faults"] == []


def test_a_stalled_org_makes_every_data_call_wait(org: Org, sf: Salesforce) -> None:
    org.admin("POST", "stall", {"seconds": 0.2})
    began = time.monotonic()
    assert sf.Lead.create(LEAD)["success"]
    assert time.monotonic() - began >= 0.2
    org.admin("POST", "stall", {"seconds": 60})
    with ThreadPoolExecutor(1) as pool:
        stalled = pool.submit(sf.Lead.create, LEAD)
        assert org.admin("GET", "records/Lead")["records"] and not stalled.done()
        org.admin("POST", "stall", {"seconds": 0})
        assert stalled.result()["success"]


def test_the_journal_says_who_it_was(org: Org) -> None:
    sf = org.client("rota-crm-3")
    sf.Lead.create(LEAD, headers={"X-Request-Id": "chunk-17", "User-Agent": "worker/1"})
    who = org.journal()[-1]["who"]
    assert who == {"client": "rota-crm-3", "request_id": "chunk-17", "agent": "worker/1"}
    assert org.journal()[-1]["path"] == "/services/data/v59.0/sobjects/Lead/"
    seq = org.journal()[-1]["seq"]
    assert org.admin("GET", f"journal?after={seq}")["entries"] == []
