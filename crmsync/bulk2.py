"""Bulk API 2.0: one job, one CSV, and three lists of what became of its rows, each naming them by their key."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from crmsync import bulk_csv
from crmsync.answers import row_fault
from crmsync.bulk import Headers, Record, Ref, Seen, Told, is_wrong_state, key_field
from crmsync.bulk_csv import encode, fits
from crmsync.classify import is_gone
from crmsync.direct import Row, RowResult, Target
from crmsync.errors import NO_ANSWER, CallFailed, Fault
from crmsync.gateway import Org

__all__ = ["BYTES_MOST", "abort", "arrived", "close", "create", "encode", "fits", "listed", "look", "told", "upload"]

# Salesforce takes 100 MB; this much goes through a slow line within one call's deadline.
BYTES_MOST = 10_000_000
ENDED = ("JobComplete", "Failed", "Aborted")
CSV = {"Content-Type": "text/csv; charset=UTF-8"}


def create(org: Org, target: Target, headers: Headers) -> str:
    asked = {
        "object": target.object,
        "operation": target.operation,
        "contentType": "CSV",
        "lineEnding": "LF",
        "columnDelimiter": "COMMA",
    }
    if target.operation == "upsert":
        asked["externalIdFieldName"] = target.external_id_field
    return str(ask(org, "POST", "jobs/ingest", headers, asked)["id"])


def upload(org: Org, ref: Ref, data: bytes, headers: Headers) -> str:
    org.send("PUT", f"jobs/ingest/{ref.job_id}/batches", data=data, headers={**headers, **CSV})
    return ""


def arrived(org: Org, ref: Ref, headers: Headers) -> str:
    return ""  # a job that was never closed has processed nothing, whatever lies in it


def close(org: Org, ref: Ref, headers: Headers) -> None:
    try:
        ask(org, "PATCH", f"jobs/ingest/{ref.job_id}", headers, {"state": "UploadComplete"})
    except CallFailed as failed:
        if not is_wrong_state(failed):
            raise


def look(org: Org, ref: Ref, headers: Headers) -> Seen:
    job = ask(org, "GET", f"jobs/ingest/{ref.job_id}", headers)
    return Seen(
        ended=job["state"] in ENDED,
        state=job["state"],
        message=str(job.get("errorMessage") or ""),
        processed=int(job.get("numberRecordsProcessed") or 0),
        failed=int(job.get("numberRecordsFailed") or 0),
        retries=int(job.get("retries") or 0),
    )


def told(org: Org, ref: Ref, target: Target, rows: Sequence[Row], headers: Headers) -> Told:
    """All three lists; a row belongs into exactly one of them. Their order means nothing."""
    key, found = key_field(target), Told()
    for line in lines(org, ref, "successfulResults", headers):
        found.add(line[key], RowResult(crm_id=line["sf__Id"] or None))
    for line in lines(org, ref, "failedResults", headers):
        fault = row_fault(line["sf__Error"])
        done = target.operation == "delete" and is_gone(fault)
        found.add(line[key], RowResult() if done else RowResult(fault=fault))
    for line in lines(org, ref, "unprocessedrecords", headers):
        if line[key] in found.results:
            found.contradicted.add(line[key])
        found.unprocessed.add(line[key])
    return found


def abort(org: Org, ref: Ref, headers: Headers) -> None:
    try:
        ask(org, "PATCH", f"jobs/ingest/{ref.job_id}", headers, {"state": "Aborted"})
    except CallFailed as failed:
        if not (is_wrong_state(failed) or is_gone(failed.fault)):
            raise


def listed(org: Org, headers: Headers) -> Iterator[dict[str, Any]]:
    """All jobs of the org that load rows, those of Bulk API 1.0 too, as it lists them."""
    page = ask(org, "GET", "jobs/ingest", headers)
    yield from page["records"]
    while not page["done"]:
        path = str(page["nextRecordsUrl"]).split(f"/v{org.address.api_version}/", 1)[1]
        page = ask(org, "GET", path, headers)
        yield from page["records"]


def lines(org: Org, ref: Ref, name: str, headers: Headers) -> list[dict[str, str]]:
    data = org.send("GET", f"jobs/ingest/{ref.job_id}/{name}/", headers={**headers, "Accept": "text/csv"})
    try:
        return bulk_csv.decode(data)
    except ValueError as error:
        raise CallFailed(Fault(NO_ANSWER, f"{name} cannot be read: {error}")) from error


def ask(org: Org, method: str, path: str, headers: Headers, body: Record | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    answer = org.send(method, path, data=data, headers={**headers, "Content-Type": "application/json"})
    try:
        return json.loads(answer)
    except ValueError as error:
        raise CallFailed(Fault(NO_ANSWER, f"{path}: the answer is no JSON.")) from error
