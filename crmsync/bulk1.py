"""Bulk API 1.0 in serial mode: the org runs one such batch at a time. For rows that keep failing for locks.

Rows go as JSON, so that no value changes its meaning. Results carry no key: they stand in the order of the batch's own
request, which the org gives back, and every id in them is checked against the row it is said to belong to.
"""

import json
from collections.abc import Sequence
from typing import Any

from crmsync.answers import as_fault
from crmsync.bulk import Headers, Record, Ref, Seen, Told, is_wrong_state, key_field, key_of
from crmsync.classify import is_gone
from crmsync.direct import Row, RowResult, Target, row_result
from crmsync.errors import NO_ANSWER, CallFailed, Fault
from crmsync.gateway import Org, as_json

BYTES_MOST = 9_000_000  # Bulk API guide v66: a batch has at most 10 MB and 10,000,000 characters
ENDED = ("Completed", "Failed", "NotProcessed", "Not Processed")
JSON = {"Content-Type": "application/json", "Accept": "application/json"}


def fits(record: Record) -> bool:
    return True


def encode(records: Sequence[Record]) -> bytes:
    return as_json(list(records))


def create(org: Org, target: Target, headers: Headers) -> str:
    asked = {
        "operation": target.operation,
        "object": target.object,
        "concurrencyMode": "Serial",
        "contentType": "JSON",
    }
    if target.operation == "upsert":
        asked["externalIdFieldName"] = target.external_id_field
    return str(ask(org, "POST", "job", headers, as_json(asked))["id"])


def upload(org: Org, ref: Ref, data: bytes, headers: Headers) -> str:
    """The batch begins at once, before the job is closed."""
    return str(ask(org, "POST", f"job/{ref.job_id}/batch", headers, data)["id"])


def arrived(org: Org, ref: Ref, headers: Headers) -> str:
    answer = ask(org, "GET", f"job/{ref.job_id}/batch", headers)
    batches = answer.get("batchInfo") or []
    return str(batches[0]["id"]) if batches else ""


def close(org: Org, ref: Ref, headers: Headers) -> None:
    change(org, ref, headers, "Closed")


def look(org: Org, ref: Ref, headers: Headers) -> Seen:
    batch = ask(org, "GET", f"job/{ref.job_id}/batch/{ref.batch_id}", headers)
    ended = batch["state"] in ENDED
    job = ask(org, "GET", f"job/{ref.job_id}", headers) if ended else {}
    return Seen(
        ended=ended,
        state=batch["state"],
        message=str(batch.get("stateMessage") or ""),
        processed=int(batch.get("numberRecordsProcessed") or 0),
        failed=int(batch.get("numberRecordsFailed") or 0),
        retries=int(job.get("numberRetries") or 0),
    )


def told(org: Org, ref: Ref, target: Target, rows: Sequence[Row], headers: Headers) -> Told:
    """A message beside the state `Completed` means nothing: only rows decide. A failed batch may tell of none."""
    found, batch = Told(), f"job/{ref.job_id}/batch/{ref.batch_id}"
    field, by_key = key_field(target), {key_of(row, target): row for row in rows}
    try:
        results = ask(org, "GET", f"{batch}/result", headers)
    except CallFailed as failed:
        if failed.fault.code.casefold() != "invalidbatch":
            raise
        found.unprocessed.update(by_key)
        return found
    sent = [str(record.get(field)) for record in ask(org, "GET", f"{batch}/request", headers)]
    if len(sent) != len(results):
        raise CallFailed(Fault(NO_ANSWER, f"{len(sent)} rows were sent; the result has {len(results)}."))
    unsure: dict[str, str] = {}
    for key, entry in zip(sent, results, strict=True):
        errors = entry.get("errors") or []
        if errors and as_fault(errors[0], status=0).code == "NOT_PROCESSED":
            found.unprocessed.add(key)
            continue
        result = row_result(entry)
        if target.operation == "delete" and result.fault and is_gone(result.fault):
            result = RowResult()
        found.add(key, result)
        crm_id = str(entry.get("id") or "")
        if result.fault is None and crm_id and key in by_key and crm_id != by_key[key].crm_id:
            unsure[key] = crm_id
    check(org, target, unsure, found)
    return found


def check(org: Org, target: Target, unsure: dict[str, str], found: Told) -> None:
    """Ids that we did not know: the org says whose they are. Another's contradicts the row."""
    if target.operation != "upsert":
        found.contradicted.update(unsure)
    elif unsure:
        ids = org.ids_of(target.object, target.external_id_field, list(unsure))
        found.contradicted.update(key for key, crm_id in unsure.items() if crm_id not in ids.get(key.casefold(), []))


def abort(org: Org, ref: Ref, headers: Headers) -> None:
    try:
        change(org, ref, headers, "Aborted")
    except CallFailed as failed:
        if not is_gone(failed.fault) and failed.fault.code.casefold() != "invalidjob":
            raise


def change(org: Org, ref: Ref, headers: Headers, state: str) -> None:
    try:
        ask(org, "POST", f"job/{ref.job_id}", headers, as_json({"state": state}))
    except CallFailed as failed:
        if not is_wrong_state(failed):
            raise


def ask(org: Org, method: str, path: str, headers: Headers, data: bytes | None = None) -> Any:
    answer = org.send(method, path, data=data, headers={**headers, **JSON}, api="async")
    try:
        return json.loads(answer)
    except ValueError as error:
        raise CallFailed(Fault(NO_ANSWER, f"{path}: the answer is no JSON.")) from error
