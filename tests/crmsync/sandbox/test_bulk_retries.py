"""When rows of a bulk job cannot be locked: how many fail, what goes back into the queue, when the job gives up."""

from pathlib import Path
from typing import Any

from simple_salesforce import Salesforce

from tests.crmsync.sandbox.bulk import Ingest, contacts
from tests.crmsync.sandbox.conftest import Org, new_account, running_org

AT_ONCE = ("--scale", "0", "--transaction-ms", "0", "--row-ms", "0")  # nobody waits, for a lock or for a turn


def hold(org: Org, sf: Salesforce, external_id: str) -> int:
    number: int = org.admin("POST", "locks", {"ids": [new_account(sf, external_id)]})["id"]
    return number


def errors(job: Ingest) -> set[str]:
    return {row["sf__Error"].split(":")[0] for row in job.rows("failedResults")}


def test_a_hundred_lock_failures_are_borne_and_one_more_sends_the_rest_back(tmp_path: Path) -> None:
    with running_org(tmp_path, *AT_ONCE) as org:
        sf = org.client()
        hold(org, sf, "busy"), new_account(sf, "free")
        for failures, retries in ((100, 0), (101, 1)):
            job = Ingest(sf, "Contact", "upsert", "Rota_Id__c")
            info = job.run(contacts(["busy"], failures) + contacts(["free"], 299, first=failures).split("\n", 1)[1])
            assert (info["state"], info["retries"]) == ("JobComplete", retries)
            assert job.counts() == (299, failures, 0) and errors(job) == {"UNABLE_TO_LOCK_ROW"}


def test_a_job_gives_up_after_so_many_returns_and_leaves_rows_unprocessed(tmp_path: Path) -> None:
    with running_org(tmp_path, *AT_ONCE) as org:
        sf = org.client()
        hold(org, sf, "busy")
        for most, rows, failed in ((2, 1_000, 600), (20, 5_000, 4_200)):
            org.admin("POST", "settings", {"bulk2_retries_most": most})
            job = Ingest(sf, "Contact", "upsert", "Rota_Id__c")
            info = job.run(contacts(["busy"], rows))
            assert (info["state"], info["retries"]) == ("Failed", most)
            assert info["errorMessage"] == "TooManyLockFailure : Too many lock failure 200 Trying again later."
            assert job.counts() == (0, failed, rows - failed)


def test_batches_of_ten_thousand_rows_run_beside_each_other(tmp_path: Path) -> None:
    with running_org(tmp_path, "--transaction-ms", "2", "--row-ms", "0") as org:
        sf = org.client()
        new_account(sf, "one")
        job = Ingest(sf, "Contact", "update")
        assert job.run("Id,Title\n" + "003000000000001,X\n" * 10_001)["numberRecordsFailed"] == 10_001
        entries = [entry for entry in org.journal() if entry["method"] == "BULK"]
        assert sorted(entry["rows"] for entry in entries) == [1, *[200] * 50]
        assert entries[-1]["rows"] == 200


def test_a_batch_that_takes_too_long_goes_back_and_still_ends(tmp_path: Path) -> None:
    with running_org(tmp_path, "--set", "bulk2_batch_s=0.0001", "--set", "bulk_requeue_s=0") as org:
        job = Ingest(org.client(), "Account", "upsert", "Rota_Id__c")
        info = job.run("Rota_Id__c,Name\n" + "".join(f"a-{number},A\n" for number in range(500)))
        assert (info["state"], info["retries"], info["numberRecordsProcessed"]) == ("JobComplete", 2, 500)


def test_jobs_go_on_where_they_were_after_the_org_was_stopped(tmp_path: Path) -> None:
    rows = "Rota_Id__c,Name\n" + "".join(f"a-{number},A\n" for number in range(1_000))
    with running_org(tmp_path) as org:
        sf = org.client()
        org.admin("POST", "faults", {"kind": "job_sticks", "rows": 400})
        still_open, job = (Ingest(sf, "Account", "upsert", "Rota_Id__c") for _ in range(2))
        still_open.put("Rota_Id__c,Name\nb,B\n")
        job.put(rows)
        job.become("UploadComplete")
        job.until("InProgress", processed=400)
        org.process.kill()
        token, job_ids = sf.session_id, (still_open.id, job.id)
    with running_org(tmp_path) as org:
        again = Salesforce(session=org.session(), session_id=token, instance_url="https://org")
        left, went_on = (resumed(again, job_id) for job_id in job_ids)
        assert went_on.until("JobComplete")["numberRecordsProcessed"] == 1_000
        assert went_on.counts() == (1_000, 0, 0)
        assert {row["sf__Created"] for row in went_on.rows("successfulResults")} == {"true"}
        assert left.info()["state"] == "Open"
        left.become("UploadComplete")
        assert left.until("JobComplete")["numberRecordsProcessed"] == 1
        assert len(org.admin("GET", "records/Account")["records"]) == 1_001


def resumed(sf: Salesforce, job_id: str) -> Ingest:
    job: Any = object.__new__(Ingest)
    job._sf, job.id = sf, job_id
    found: Ingest = job
    return found
