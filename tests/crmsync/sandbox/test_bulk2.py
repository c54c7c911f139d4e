"""Bulk API 2.0 ingest: what a job says of itself, its CSV, its three lists of rows."""

import gzip
import json
from collections.abc import Callable

import pytest
from simple_salesforce import Salesforce

from tests.crmsync.sandbox.bulk import Ingest, contacts, table
from tests.crmsync.sandbox.conftest import Org

MakeAccount = Callable[[str], str]


def leads(count: int) -> str:
    return table("Rota_Id__c,LastName,Company", *(f"l-{n},Name {n},Acme" for n in range(count)))


def test_the_client_upserts_by_a_bulk_job(org: Org, sf: Salesforce) -> None:
    records = [{"Rota_Id__c": f"l-{n}", "LastName": "Zoë £€ 日本", "Company": "C"} for n in range(250)]
    (result,) = sf.bulk2.Lead.upsert(records=records, external_id_field="Rota_Id__c", wait=0)
    assert (result["numberRecordsProcessed"], result["numberRecordsFailed"]) == (250, 0)
    assert sf.bulk2.Lead.get_successful_records(result["job_id"]).count("\n") == 251
    assert sf.query("SELECT LastName FROM Lead LIMIT 1")["records"][0]["LastName"] == "Zoë £€ 日本"


def test_two_hundred_rows_are_one_transaction(org: Org, sf: Salesforce) -> None:
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    assert job.run(leads(450))["state"] == "JobComplete"
    entries = [entry for entry in org.journal() if entry["method"] == "BULK"]
    assert [entry["rows"] for entry in entries] == [200, 200, 50]
    assert {entry["who"]["request_id"] for entry in entries} == {job.id}
    assert {entry["path"] for entry in entries} == {f"/services/data/v59.0/jobs/ingest/{job.id}"}


def test_a_job_goes_from_open_to_complete_and_says_so(sf: Salesforce) -> None:
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    assert job.made["state"] == "Open" and job.made["contentUrl"] == f"services/data/v59.0/jobs/ingest/{job.id}/batches"
    assert (job.made["concurrencyMode"], job.made["lineEnding"], job.made["columnDelimiter"]) == (
        "Parallel",
        "LF",
        "COMMA",
    )
    assert job.put(leads(3)).status_code == 201
    assert job.info()["state"] == "Open"
    assert job.become("UploadComplete").json()["state"] == "UploadComplete"
    info = job.until("JobComplete")
    assert (info["numberRecordsProcessed"], info["numberRecordsFailed"], info["retries"]) == (3, 0, 0)
    assert (info["externalIdFieldName"], info["jobType"], "errorMessage" in info) == ("Rota_Id__c", "V2Ingest", False)


def test_good_bad_and_unread_rows_come_in_lists_of_their_own(sf: Salesforce) -> None:
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    text = table("Rota_Id__c,LastName,Company,Email", "a,A,C,", "b,B,C,no mail", "c,C,C,c@d.ef")
    assert job.run(text)["numberRecordsFailed"] == 1
    good, (bad,) = job.rows("successfulResults"), job.rows("failedResults")
    assert {row["Rota_Id__c"]: row["sf__Created"] for row in good} == {"a": "true", "c": "true"}
    assert bad == {
        "sf__Id": "",
        "sf__Error": "INVALID_EMAIL_ADDRESS:Email: invalid email address: no mail:Email --",
        "Rota_Id__c": "b",
        "LastName": "B",
        "Company": "C",
        "Email": "no mail",
    }
    assert job.rows("unprocessedrecords") == job.rows("unprocessedRecords") == []
    again = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    again.run(text)
    assert {row["sf__Created"] for row in again.rows("successfulResults")} == {"false"}


def test_empty_leaves_a_field_and_na_empties_it(org: Org, sf: Salesforce, make_account: MakeAccount) -> None:
    make_account("a-1")
    header = "Rota_Id__c,LastName,Title,Phone,Account.Rota_Id__c"
    Ingest(sf, "Contact", "upsert", "Rota_Id__c").run(table(header, "c,K,Head,1,a-1"))
    assert Ingest(sf, "Contact", "upsert", "Rota_Id__c").run(table(header, "c,,,#N/A,#N/A"))["numberRecordsFailed"] == 0
    (record,) = org.admin("GET", "records/Contact")["records"]
    assert [record[name] for name in ("LastName", "Title", "Phone", "AccountId")] == ["K", "Head", None, None]


def test_every_kind_of_value_is_read(org: Org, sf: Salesforce) -> None:
    header = "LastName,Company,AnnualRevenue,NumberOfEmployees,HasOptedOutOfEmail,Rota_Assigned_At__c,Description"
    job = Ingest(sf, "Lead", "insert")
    job.run(
        table(
            header,
            'A,C,1e3,7,TRUE,2026-03-01T10:00:00.000+09:00,"two\nlines, ""quoted"""',
            "B,C,,,no,2026-03-01T10:00:00Z,\u2028",
            "C,C,much,,,,",
            "D,C,,,maybe,,",
            "E,C,,,,2026-03-01,",
            "F,C,,1.5,,,",
        )
    )
    records = {record["LastName"]: record for record in org.admin("GET", "records/Lead")["records"]}
    assert set(records) == {"A", "B"}
    a = records["A"]
    assert (a["AnnualRevenue"], a["NumberOfEmployees"], a["HasOptedOutOfEmail"]) == (1000, 7, True)
    assert (a["Rota_Assigned_At__c"], a["Description"]) == ("2026-03-01T01:00:00.000+0000", 'two\nlines, "quoted"')
    codes = {row["LastName"]: row["sf__Error"].split(":")[0] for row in job.rows("failedResults")}
    assert codes == {**dict.fromkeys("CDE", "INVALID_TYPE_ON_FIELD_IN_RECORD"), "F": "JSON_PARSER_ERROR"}


def test_a_parent_of_several_kinds_is_named_with_its_kind(org: Org, sf: Salesforce) -> None:
    sf.Lead.upsert("Rota_Id__c/l-1", {"LastName": "L", "Company": "C"})
    task = table("Rota_Id__c,Subject,Lead:Who.Rota_Id__c", "t-1,Call,l-1")
    assert Ingest(sf, "Task", "upsert", "Rota_Id__c").run(task)["numberRecordsFailed"] == 0
    assert org.admin("GET", "records/Task")["records"][0]["WhoId"].startswith("00Q")


def test_delimiter_and_line_ending_are_those_of_the_job(org: Org, sf: Salesforce) -> None:
    text = "Rota_Id__c;LastName;Company\r\nl-1;A,B;C\r\n"
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c", columnDelimiter="SEMICOLON", lineEnding="CRLF")
    assert job.run(text)["state"] == "JobComplete"
    assert job.step("GET", f"/{job.id}/successfulResults").content.count(b'";"') == 8
    assert org.admin("GET", "records/Lead")["records"][0]["LastName"] == "A,B"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Rota_Id__c,LastName\r\nx,y\r\n", "ClientInputError : LineEnding is invalid on user data."),
        ("Rota_Id__c,Nickname\nx,y\n", "InvalidBatch : Field name not found : Nickname"),
        ("Rota_Id__c,LastName,lastname\nx,y,z\n", "InvalidBatch : Duplicate field name"),
        (b"Rota_Id__c,LastName\nx,\xa3\n", "ClientInputError : CSV is not UTF-8"),
        ("", "InvalidBatch : Failed to parse CSV header"),
    ],
)
def test_a_csv_that_cannot_be_read_fails_the_job(org: Org, sf: Salesforce, text: str | bytes, message: str) -> None:
    info = Ingest(sf, "Lead", "upsert", "Rota_Id__c").run(text)
    assert (info["state"], info["numberRecordsProcessed"]) == ("Failed", 0)
    assert info["errorMessage"].startswith(message)
    assert org.admin("GET", "records/Lead")["records"] == []


def test_a_row_that_cannot_be_read_fails_alone(sf: Salesforce) -> None:
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    job.run(table("Rota_Id__c,LastName,Company", 'a, "A",C', "b,B", ",C,C", f"d,{'x' * 32_001},C", "e,E,C"))
    assert [row["Rota_Id__c"] for row in job.rows("successfulResults")] == ["e"]
    codes = sorted(row["sf__Error"].split(":")[0] for row in job.rows("failedResults"))
    assert codes == ["INVALID_CSV_ROW", "INVALID_CSV_ROW", "MISSING_ARGUMENT", "STRING_TOO_LONG"]


def test_records_are_updated_and_deleted_by_id(org: Org, sf: Salesforce) -> None:
    made = [sf.Lead.create({"LastName": "L", "Company": "C"})["id"] for _ in range(3)]
    job = Ingest(sf, "Lead", "update")
    job.run(table("Id,City", f"{made[0]},X", ",Y", "zzz,Z", "0015R0000000001AAA,Z"))
    assert [row["City"] for row in job.rows("successfulResults")] == ["X"]
    assert sorted(row["sf__Error"].split(":")[0] for row in job.rows("failedResults")) == [
        "MALFORMED_ID",
        "MALFORMED_ID",
        "MISSING_ARGUMENT",
    ]
    for operation, record_id in (("delete", made[0]), ("hardDelete", made[1])):
        assert Ingest(sf, "Lead", operation).run(table("Id", record_id))["numberRecordsFailed"] == 0
    assert [record["Id"] for record in org.admin("GET", "records/Lead")["records"]] == [made[2]]


def test_an_aborted_job_keeps_what_was_saved_and_lists_the_rest(org: Org, sf: Salesforce) -> None:
    org.admin("POST", "faults", {"kind": "job_sticks", "object": "Lead", "rows": 400})
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    job.put(leads(1_000))
    job.become("UploadComplete")
    job.until("InProgress", processed=400)
    assert job.become("Aborted").json()["state"] == "Aborted"
    org.admin("DELETE", "faults")
    assert job.counts() == (400, 0, 600)
    assert len(org.admin("GET", "records/Lead")["records"]) == 400
    assert job.become("Aborted").json()[0]["errorCode"] == "INVALIDJOBSTATE"
    assert job.step("DELETE", f"/{job.id}").status_code == 204
    assert job.step("GET", f"/{job.id}").status_code == 404


def test_a_job_that_fails_keeps_what_was_saved(org: Org, sf: Salesforce) -> None:
    org.admin("POST", "faults", {"kind": "job_fails", "object": "Lead", "rows": 200})
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    info = job.run(leads(500))
    assert (info["state"], info["errorMessage"]) == ("Failed", "InternalServerError : Unable to process job")
    assert job.counts() == (200, 0, 300)


def test_steps_out_of_turn_are_refused(org: Org, sf: Salesforce) -> None:
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    assert job.become("Nonsense").json()[0]["errorCode"] == "CLIENTINPUTERROR"
    assert job.put(leads(1)).status_code == 201
    assert job.put(leads(1)).json()[0]["errorCode"] == "CLIENTINPUTERROR"
    assert job.step("DELETE", f"/{job.id}").json()[0]["errorCode"] == "INVALIDJOBSTATE"
    job.become("UploadComplete")
    job.until("JobComplete")
    for refused in (job.put(leads(1)), job.become("UploadComplete"), job.become("Aborted")):
        assert (refused.status_code, refused.json()[0]["errorCode"]) == (400, "INVALIDJOBSTATE")
    org.admin("POST", "settings", {"bulk2_codes_in_capitals": False})
    assert job.become("Aborted").json()[0]["errorCode"] == "InvalidJobState"
    for body, code in [
        ({"object": "Nothing", "operation": "insert"}, "InvalidJob"),
        ({"object": "Lead", "operation": "merge"}, "ClientInputError"),
        ({"object": "Lead", "operation": "upsert", "externalIdFieldName": "Company"}, "InvalidJob"),
        ({"object": "Lead", "operation": "insert", "lineEnding": "CR"}, "ClientInputError"),
    ]:
        assert job.step("POST", "", json=body).json()[0]["errorCode"] == code


def test_jobs_are_listed_newest_first(sf: Salesforce) -> None:
    first, second = Ingest(sf, "Lead", "insert"), Ingest(sf, "Contact", "insert")
    listed = first.step("GET", "").json()
    assert listed["done"] and [job["id"] for job in listed["records"]] == [second.id, first.id]


def test_a_job_may_be_made_filled_and_closed_in_one_call(org: Org, sf: Salesforce) -> None:
    job = json.dumps({"object": "Lead", "operation": "insert"})
    parts = {"job": (None, job, "application/json"), "content": ("content", "LastName,Company\nL,C\n", "text/csv")}
    some = Ingest(sf, "Lead", "insert")
    made = some.step("POST", "", files=parts).json()
    assert made["state"] == "UploadComplete"
    some.id = made["id"]
    assert some.until("JobComplete")["numberRecordsProcessed"] == 1


def test_an_upload_may_come_packed(sf: Salesforce) -> None:
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    assert job.put(gzip.compress(leads(5).encode()), **{"Content-Encoding": "gzip"}).status_code == 201
    job.become("UploadComplete")
    assert job.until("JobComplete")["numberRecordsProcessed"] == 5


def test_results_with_and_without_charset_in_order_and_out_of_it(org: Org, sf: Salesforce) -> None:
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    job.run(leads(50))
    path = f"/{job.id}/successfulResults"
    sent = [f"l-{number}" for number in range(50)]
    shuffled = [row["Rota_Id__c"] for row in job.rows("successfulResults")]
    assert shuffled != sent and sorted(shuffled) == sorted(sent)
    assert job.step("GET", path).headers["Content-Type"] == "text/csv; charset=UTF-8"
    org.admin("POST", "settings", {"bulk2_results_name_charset": False, "bulk2_results_shuffled": False})
    assert [row["Rota_Id__c"] for row in job.rows("successfulResults")] == sent
    assert job.step("GET", path).headers["Content-Type"] == "text/csv"


def test_a_list_without_rows_is_a_header_or_no_content(org: Org, sf: Salesforce) -> None:
    job = Ingest(sf, "Lead", "upsert", "Rota_Id__c")
    job.run(leads(1))
    assert job.step("GET", f"/{job.id}/failedResults").text.startswith('"sf__Id","sf__Error","Rota_Id__c"')
    org.admin("POST", "settings", {"bulk2_empty_result_is_204": True})
    assert job.step("GET", f"/{job.id}/failedResults").status_code == 204


def test_sorted_children_of_one_parent_do_not_fight_inside_a_job(org: Org, sf: Salesforce) -> None:
    sf.Account.upsert("Rota_Id__c/a-1", {"Name": "A"})
    job = Ingest(sf, "Contact", "upsert", "Rota_Id__c")
    assert job.run(contacts(["a-1"], 600))["numberRecordsFailed"] == 0
    assert not any(entry["waits"] for entry in org.journal())


def test_chunks_of_one_batch_may_be_saved_at_once_where_the_setting_says_so(org: Org, sf: Salesforce) -> None:
    sf.Account.upsert("Rota_Id__c/a-1", {"Name": "A"})
    org.admin("POST", "settings", {"bulk2_chunks_at_once": 3})
    job = Ingest(sf, "Contact", "upsert", "Rota_Id__c")
    assert job.run(contacts(["a-1"], 600))["numberRecordsFailed"] == 0
    assert sum(bool(entry["waits"]) for entry in org.journal()) == 2
