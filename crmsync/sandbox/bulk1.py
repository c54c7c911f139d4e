"""Bulk API 1.0: jobs of several batches, in parallel or one after another, in JSON, XML or CSV.

Its session comes in `X-SFDC-Session`, and a bad one is 400 InvalidSessionId, not 401 (Bulk API guide; public reports).
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from crmsync.sandbox import bulk1_text, bulk_uploads, csv_text, describe, ids, query, times
from crmsync.sandbox.bulk_jobs import BATCH_PREFIX, JOB_PREFIX, Batch, Job
from crmsync.sandbox.bulk_uploads import ACTIONS
from crmsync.sandbox.calls import DataCall
from crmsync.sandbox.errors import CallError, Stopping
from crmsync.sandbox.faulty_calls import bearer
from crmsync.sandbox.outcomes import Outcome
from crmsync.sandbox.soql import compile_query
from crmsync.sandbox.soql_parser import parse

ROWS_MOST, BYTES_MOST = 10_000, 10_000_000  # of a batch; Bulk API guide v66
RESULT_PREFIX = "752"
MODES = {"0": False, "1": True, "Parallel": False, "Serial": True, "": False}
TYPES = ("CSV", "JSON", "XML")
QUERIES = ("query", "queryAll")


@dataclass(frozen=True)
class _Call:
    """A call below /services/async/NN.0/job."""

    data: DataCall
    request: Request
    segments: list[str]

    async def fields(self) -> dict[str, Any]:
        try:
            return bulk1_text.read(self.request, await self.data.sent())
        except bulk1_text.Unreadable:
            raise _refused("InvalidJob", "The request cannot be read") from None

    def job(self) -> Job:
        job = self.data.org.jobs.find(self.segments[0], "1")
        if job is None:
            raise _refused("InvalidJob", f"Invalid job id: {self.segments[0]}")
        return job

    def batch(self) -> tuple[Job, Batch]:
        job, full = self.job(), ids.canonical(self.segments[2])
        batch = self.data.org.jobs.batches.get(full) if full else None
        if batch is None or batch.job_id != job.id:
            raise _refused("InvalidBatch", f"Invalid batch id: {self.segments[2]}")
        return job, batch


async def endpoint(request: Request) -> Response:
    """Every call of Bulk API 1.0."""
    org = request.app.state.org
    segments = [part for part in request.url.path.split("/") if part]
    version = re.fullmatch(r"(\d+)\.0", segments[2])
    data = DataCall(org, request, int(version[1]) if version else describe.NEWEST_VERSION, segments[4:])
    try:
        if version is None or not describe.OLDEST_VERSION <= int(version[1]) <= describe.NEWEST_VERSION:
            raise _refused("InvalidVersion", "This version of the API is not spoken")
        await org.faults.wait_out_stall()
        org.check_limits()
        if not org.sessions.is_good(bearer(request)):
            raise _refused("InvalidSessionId", "Invalid session id")
        if segments[3:4] != ["job"]:
            raise CallError(404, "InvalidUrl", "Destination URL not reachable")
        with org.counted():
            return await _answer(_Call(data, request, segments[4:]))
    except CallError as error:
        code = {"REQUEST_LIMIT_EXCEEDED": "ExceededQuota"}.get(error.code, error.code)
        return bulk1_text.refusal(request, code, error.message, error.status)
    except Stopping:
        return bulk1_text.refusal(request, "Unknown", "The org is being stopped", 503)


async def _answer(call: _Call) -> Response:
    batches_of = call.data.org.jobs.batches_of
    match [call.request.method, *call.segments]:
        case ["POST"]:
            return await _create(call)
        case ["GET", _]:
            return bulk1_text.answer(call.request, "jobInfo", bulk1_text.job_info(call.job(), batches_of(call.job())))
        case ["POST", _]:
            return await _change(call, call.job())
        case ["POST", _, "batch"]:
            return await _add_batch(call, call.job())
        case ["GET", _, "batch"]:
            listed = [bulk1_text.batch_info(batch) for batch in batches_of(call.job())]
            return bulk1_text.answer(call.request, "batchInfo", listed)
        case ["GET", _, "batch", _]:
            return bulk1_text.answer(call.request, "batchInfo", bulk1_text.batch_info(call.batch()[1]))
        case ["GET", _, "batch", _, "request"]:
            job, batch = call.batch()
            kind = {"CSV": "text/csv", "JSON": "application/json", "XML": "application/xml"}[job.content_type]
            return Response(call.data.org.jobs.uploads[batch.id], media_type=kind)
        case ["GET", _, "batch", _, "result"]:
            return _results(call, *call.batch())
        case ["GET", _, "batch", _, "result", result_id]:
            return await _query_result(call, *call.batch(), result_id)
    raise CallError(404, "InvalidUrl", "Destination URL not reachable")


async def _create(call: _Call) -> Response:
    fields, org = await call.fields(), call.data.org
    operation, mode = str(fields.get("operation")), str(fields.get("concurrencyMode", ""))
    kind, sobject = str(fields.get("contentType") or "XML"), org.schema.find(str(fields.get("object")))
    if operation not in (*ACTIONS, *QUERIES) or mode not in MODES or kind not in TYPES:
        raise _refused("InvalidJob", "operation, concurrencyMode or contentType is not one that exists")
    if sobject is None:
        raise _refused("InvalidJob", f"Unable to find object: {fields.get('object')}")
    key = sobject.field(str(fields.get("externalIdFieldName")))
    if operation == "upsert" and (key is None or not (key.external_id or key.type == "id")):
        raise _refused("InvalidJob", f"Field name not found : {fields.get('externalIdFieldName')}")
    job_id, at = org.jobs.next_id(JOB_PREFIX), times.now()
    job = Job(
        id=job_id,
        api="1",
        operation=operation,
        object=sobject.name,
        version=call.data.version,
        client=call.data.journal_call.caller.client,
        path=f"/services/async/{call.data.version}.0/job/{job_id}",
        created_by=org.integration_user,
        created_at=at,
        key=key.name if key and operation == "upsert" else "",
        content_type=kind,
        serial=MODES[mode],
        assignment_rule=str(fields.get("assignmentRuleId") or ""),
        retries_allowed=call.request.headers.get("sforce-disable-batch-retry", "").upper() != "TRUE",
    )
    await org.jobs.keep(job)
    return bulk1_text.answer(call.request, "jobInfo", bulk1_text.job_info(job, []), 201)


async def _change(call: _Call, job: Job) -> Response:
    state, jobs = (await call.fields()).get("state"), call.data.org.jobs
    if state not in ("Closed", "Aborted"):
        raise _refused("InvalidJob", "state is Closed or Aborted")
    if job.state != "Open":
        raise _refused("InvalidJobState", f"Job is already {job.state}")
    job.state = state
    await jobs.keep(job)
    return bulk1_text.answer(call.request, "jobInfo", bulk1_text.job_info(job, jobs.batches_of(job)))


async def _add_batch(call: _Call, job: Job) -> Response:
    data, org = await call.data.sent(), call.data.org
    if job.state != "Open":
        raise _refused("InvalidJobState", f"Job is {job.state}")
    if len(data) > BYTES_MOST:
        raise _refused("ClientInputError", f"Request exceeds {BYTES_MOST} bytes")
    org.spend_bulk_batch()
    batch = Batch(org.jobs.next_id(BATCH_PREFIX), job.id, times.now())
    org.jobs.uploads[batch.id] = data
    if job.operation in QUERIES:
        await _run_query(call, job, batch, data)
    else:
        try:
            bulk_uploads.load(org.jobs, job, batch)
        except csv_text.BadCsv as error:
            batch.state, batch.message, batch.rows = "Failed", str(error), []
    if len(batch.rows) > ROWS_MOST:
        batch.state, batch.message, batch.rows = "Failed", f"InvalidBatch : more than {ROWS_MOST} records", []
    await org.jobs.keep(job, batch, upload=data)
    shown = bulk1_text.batch_info(batch)
    if batch.state == "Queued":
        org.runner.start(job, batch)
    return bulk1_text.answer(call.request, "batchInfo", shown, 201)


def _results(call: _Call, job: Job, batch: Batch) -> Response:
    if job.operation in QUERIES and batch.state == "Completed":
        return bulk1_text.result_list(job.content_type, [_result_id(batch)])
    partly = batch.processed > 0 and call.data.org.facts.bulk1_failed_batch_has_results
    if batch.state in ("Queued", "InProgress"):
        raise _refused("InvalidBatch", "Batch not completed")
    if batch.state != "Completed" and not partly:
        raise _refused("InvalidBatch", "Records not processed")
    unread = bulk_uploads.empty_outcome()
    outcomes: list[Outcome] = [result or unread for result in batch.results]
    return bulk1_text.results(job.content_type, outcomes)


async def _run_query(call: _Call, job: Job, batch: Batch, data: bytes) -> None:
    org = call.data.org
    try:
        statement = compile_query(
            org.schema, parse(data.decode("utf-8", "replace")), deleted=job.operation == "queryAll"
        )
        found = await org.store.query(statement.sql, statement.parameters)
        batch.state, batch.processed = "Completed", len(found)
    except CallError as error:
        batch.state, batch.message = "Failed", f"InvalidBatch : Failed to process query: {error.code}: {error.message}"


async def _query_result(call: _Call, job: Job, batch: Batch, result_id: str) -> Response:
    if job.operation not in QUERIES or batch.state != "Completed" or ids.canonical(result_id) != _result_id(batch):
        raise _refused("InvalidBatch", "Invalid result id")
    org, text = call.data.org, call.data.org.jobs.uploads[batch.id].decode("utf-8", "replace")
    statement = compile_query(org.schema, parse(text), deleted=job.operation == "queryAll")
    if job.content_type == "CSV":
        return Response(csv_text.write(await query.table(org, statement)), media_type="text/csv; charset=UTF-8")
    rows = await org.store.query(statement.sql, statement.parameters)
    records = [query.record(call.data, statement, row) for row in rows]
    return Response(json.dumps(records, ensure_ascii=False), media_type="application/json")


def _result_id(batch: Batch) -> str:
    return ids.make(RESULT_PREFIX, ids.number_of(batch.id))


def _refused(code: str, message: str) -> CallError:
    return CallError(400, code, message)
