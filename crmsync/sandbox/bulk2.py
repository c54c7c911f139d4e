"""Bulk API 2.0, ingest: make a job, upload a CSV, close the job, and read in three lists what became of the rows."""

import random
from collections.abc import Callable, Iterator
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, get_args

from starlette.responses import Response

from crmsync.sandbox import bulk_uploads, csv_text, times
from crmsync.sandbox.bulk_jobs import BATCH_PREFIX, ENDED, JOB_PREFIX, Batch, Job, State, error_text
from crmsync.sandbox.bulk_uploads import ACTIONS
from crmsync.sandbox.calls import DataCall
from crmsync.sandbox.errors import CallError, not_found

DATA_MOST = 150_000_000  # bytes; Bulk API guide v66: 100 MB, 150 MB after base64
LIST_PAGE = 1_000
DELETABLE = ("UploadComplete", *ENDED)
COLUMNS = {
    "successfulresults": ["sf__Id", "sf__Created"],
    "failedresults": ["sf__Id", "sf__Error"],
    "unprocessedrecords": [],
}


async def answer(call: DataCall) -> Response:
    """Calls of `jobs/ingest...`; the last part of a path in any case. Raises CallError."""
    match [*call.segments[2:3], *(part.lower() for part in call.segments[3:])]:
        case [] if call.method == "POST":
            return await _create(call)
        case [] if call.method == "GET":
            return list_jobs(call, "2")
        case [job_id] if call.method == "GET":
            return call.answer(_info(find(call, job_id, "2")))
        case [job_id] if call.method == "PATCH":
            return await _change(call, find(call, job_id, "2"))
        case [job_id] if call.method == "DELETE":
            return await delete(call, find(call, job_id, "2"))
        case [job_id, "batches"] if call.method == "PUT":
            return await _upload(call, find(call, job_id, "2"))
        case [job_id, "successfulresults" | "failedresults" | "unprocessedrecords" as kind] if call.method == "GET":
            return _results(call, find(call, job_id, "2"), kind)
        case [] | [_]:
            call.not_allowed("GET", "POST", "PATCH", "DELETE")
        case [_, "batches"]:
            call.not_allowed("PUT")
    raise not_found()


def find(call: DataCall, job_id: str, *apis: str) -> Job:
    """The job of this id. Raises CallError 404."""
    job = call.org.jobs.find(job_id, *apis)
    if job is None:
        raise not_found()
    return job


def refused(call: DataCall, code: str, message: str) -> CallError:
    """An error of a 2.0 call: in capitals as seen live, or as in the guide (setting `bulk2_codes_in_capitals`)."""
    return CallError(400, code.upper() if call.org.facts.bulk2_codes_in_capitals else code, message)


def new_job(call: DataCall, api: str, body: dict[str, Any], operation: str, name: str) -> Job:
    """A job that the call asks for, not yet kept. Raises CallError for a delimiter or line ending that does not
    exist."""
    delimiter, line_ending = str(body.get("columnDelimiter", "COMMA")), str(body.get("lineEnding", "LF"))
    if delimiter not in csv_text.DELIMITERS or line_ending not in csv_text.LINE_ENDINGS:
        raise refused(call, "ClientInputError", "columnDelimiter or lineEnding is not one that exists")
    job_id, at = call.org.jobs.next_id(JOB_PREFIX), times.now()
    kind = "query" if api == "query" else "ingest"
    return Job(
        id=job_id,
        api=api,
        operation=operation,
        object=name,
        version=call.version,
        client=call.journal_call.caller.client,
        path=f"{call.base}/jobs/{kind}/{job_id}",
        created_by=call.org.integration_user,
        created_at=at,
        modified_at=at,
        delimiter=delimiter,
        line_ending=line_ending,
    )


def list_jobs(call: DataCall, api: str) -> Response:
    """All jobs of a kind, those of Bulk API 1.0 among them (Bulk API guide, "Get All Jobs"), newest first, in pages of
    1,000."""

    def is_listed(job: Job) -> bool:
        return job.api == api or (job.api == "1" and (job.operation in ACTIONS) == (api == "2"))

    jobs = [job for job in reversed(call.org.jobs.jobs.values()) if is_listed(job)]
    start = call.request.query_params.get("queryLocator", "0")
    at = int(start) if start.isdecimal() else 0
    page: dict[str, Any] = {"done": at + LIST_PAGE >= len(jobs), "nextRecordsUrl": None}
    if not page["done"]:
        page["nextRecordsUrl"] = f"{call.base}/jobs/{call.segments[1]}?queryLocator={at + LIST_PAGE}"
    return call.answer({**page, "records": [summary(job) for job in jobs[at : at + LIST_PAGE]]})


async def delete(call: DataCall, job: Job) -> Response:
    """Forget a job that does not run. Raises CallError."""
    if job.state not in DELETABLE:
        raise refused(call, "InvalidJobState", f"Deleting a job in the state {job.state} is not allowed")
    await call.org.jobs.remove(job)
    return call.answer(None, 204)


def summary(job: Job) -> dict[str, Any]:
    """What the answer to a new job says, and every line of the list."""
    kind = {"1": "Classic", "2": "V2Ingest", "query": "V2Query"}[job.api]
    shown = {
        "id": job.id,
        "operation": job.operation,
        "object": job.object,
        "createdById": job.created_by,
        "createdDate": job.created_at,
        "systemModstamp": job.modified_at,
        "state": job.state,
        "concurrencyMode": "Parallel",
        "contentType": "CSV",
        "apiVersion": float(job.version),
        "jobType": kind,
        "lineEnding": job.line_ending,
        "columnDelimiter": job.delimiter,
    }
    if job.api == "2":
        shown["contentUrl"] = f"{job.path.removeprefix('/')}/batches"
        shown |= {"externalIdFieldName": job.key} if job.key else {}
        shown |= {"assignmentRuleId": job.assignment_rule} if job.assignment_rule else {}
    return shown


def _info(job: Job) -> dict[str, Any]:
    shown = summary(job)
    shown |= {
        "retries": job.retries,
        "totalProcessingTime": round(job.api_ms),
        "apiActiveProcessingTime": round(job.api_ms),
        "apexProcessingTime": 0,
        "numberRecordsProcessed": job.processed,
        "numberRecordsFailed": job.failed,
    }
    return {**shown, "errorMessage": job.message} if job.message else shown


async def _create(call: DataCall) -> Response:
    data = None
    if call.request.headers.get("content-type", "").startswith("multipart/"):
        body, data = await _multipart(call)
    else:
        body = await call.body()
    operation, name = str(body.get("operation")), str(body.get("object"))
    if operation not in ACTIONS:
        raise refused(call, "ClientInputError", f"operation is one of {', '.join(ACTIONS)}")
    sobject = call.org.schema.find(name)
    if sobject is None:
        raise refused(call, "InvalidJob", f"InvalidJob : Unable to find object: {name}")
    if body.get("contentType", "CSV") != "CSV":
        raise refused(call, "ClientInputError", "contentType is CSV")
    job = new_job(call, "2", body, operation, sobject.name)
    job.assignment_rule = str(body.get("assignmentRuleId") or "")
    if operation == "upsert":
        key = sobject.field(str(body.get("externalIdFieldName")))
        if key is None or not (key.external_id or key.type == "id"):
            text = f"InvalidJob : Field name not found : {body.get('externalIdFieldName')}"
            raise refused(call, "InvalidJob", text)
        job.key = key.name
    if data is None:
        await call.org.jobs.keep(job)
    else:
        await _keep_upload(call, job, data)
        await _close(call, job)
    return call.answer(summary(job))


async def _multipart(call: DataCall) -> tuple[dict[str, Any], bytes]:
    """The parts `job` (JSON) and `content` (CSV) of a job that is made, filled and closed in one call."""
    head = f"Content-Type: {call.request.headers['content-type']}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + await call.request.body())
    parts = {part.get_param("name", header="content-disposition"): part for part in message.iter_parts()}
    if set(parts) != {"job", "content"}:
        raise refused(call, "ClientInputError", "a job of several parts has the parts job and content")
    content = parts["content"].get_payload(decode=True)
    job_text = parts["job"].get_payload(decode=True)
    return call.read_json(bytes(job_text or b"")), bytes(content or b"")


async def _upload(call: DataCall, job: Job) -> Response:
    if job.state != "Open":
        raise refused(call, "InvalidJobState", f"Uploading to a job in the state {job.state} is not allowed")
    if call.org.jobs.batches_of(job):
        text = f"Found multiple contents for job: <{job.id}>, please 'Close' / 'Abort' / 'Delete' the current Job"
        raise refused(call, "ClientInputError", f"{text} then create a new Job and make sure you only do 'PUT' once")
    await _keep_upload(call, job, await call.sent())
    return call.answer(None, 201)


async def _keep_upload(call: DataCall, job: Job, data: bytes) -> None:
    if len(data) > DATA_MOST:
        raise CallError(413, "REQUEST_ENTITY_TOO_LARGE", f"At most {DATA_MOST} bytes may be uploaded")
    call.org.spend_bulk_batch()
    batch = Batch(call.org.jobs.next_id(BATCH_PREFIX), job.id, times.now())
    await call.org.jobs.keep(job, batch, upload=data)


async def _change(call: DataCall, job: Job) -> Response:
    state = (await call.body()).get("state")
    if state == "UploadComplete":
        if job.state != "Open":
            raise refused(call, "InvalidJobState", f"Closing already {job.state} Job not allowed")
        await _close(call, job)
    elif state == "Aborted":
        if job.is_ended:
            text = {"JobComplete": "Completed"}.get(job.state, job.state)
            raise refused(call, "InvalidJobState", f"Aborting already {text} Job not allowed")
        job.state = "Aborted"
        await call.org.jobs.keep(job)
    else:
        known = f"one of {', '.join(get_args(State))}"
        raise refused(call, "ClientInputError", f"state is UploadComplete or Aborted, not {state} ({known})")
    return call.answer(summary(job))


async def _close(call: DataCall, job: Job) -> None:
    """Hand the job to the workers; a CSV that cannot be read fails it."""
    job.state = "UploadComplete"
    batches = call.org.jobs.batches_of(job)
    try:
        for batch in batches:
            bulk_uploads.load(call.org.jobs, job, batch)
    except csv_text.BadCsv as error:
        job.state, job.message = "Failed", str(error)
        batches = []
    await call.org.jobs.keep(job)
    for batch in batches:
        call.org.runner.start(job, batch)
    if not batches and job.state == "UploadComplete":
        job.state = "JobComplete"
        await call.org.jobs.keep(job)


def _results(call: DataCall, job: Job, kind: str) -> Response:
    facts = call.org.facts
    batches = call.org.jobs.batches_of(job) if job.is_ended else []
    header = next((batch.header for batch in batches), [])
    rows = [row for batch in batches for row in ROWS[kind](batch)]
    if facts.bulk2_results_shuffled:
        random.Random(f"{call.org.options.seed}/{job.id}/{kind}").shuffle(rows)
    return csv_answer(call, [COLUMNS[kind] + header, *rows], job, {})


def csv_answer(call: DataCall, rows: list[list[str]], job: Job, headers: dict[str, str]) -> Response:
    """Header and rows as CSV, with or without a charset in the type, and 204 for no rows where the setting says so."""
    facts = call.org.facts
    if len(rows) == 1 and facts.bulk2_empty_result_is_204:
        return call.answer(None, 204, headers)
    # UTF-8 either way; requests takes a text type without charset for ISO-8859-1
    kind = "text/csv; charset=UTF-8" if facts.bulk2_results_name_charset else "text/csv"
    text = csv_text.write(rows, job.delimiter, job.line_ending).encode()
    return Response(text, headers={**call.usage, **headers, "Content-Type": kind})


def _successful(batch: Batch) -> Iterator[list[str]]:
    for line, result in zip(batch.lines, batch.results, strict=True):
        if result is not None and result.error is None:
            yield [result.record_id or "", "true" if result.created else "false", *line]


def _failed(batch: Batch) -> Iterator[list[str]]:
    for line, result in zip(batch.lines, batch.results, strict=True):
        if result is not None and result.error is not None:
            yield [result.record_id or "", error_text(result.error), *line]


def _unprocessed(batch: Batch) -> Iterator[list[str]]:
    return (line for line, result in zip(batch.lines, batch.results, strict=True) if result is None)


ROWS: dict[str, Callable[[Batch], Iterator[list[str]]]] = {
    "successfulresults": _successful,
    "failedresults": _failed,
    "unprocessedrecords": _unprocessed,
}
