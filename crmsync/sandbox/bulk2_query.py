"""Bulk API 2.0, query: a job runs a SOQL query, and its result is fetched as CSV, a locator after the other."""

from starlette.responses import Response

from crmsync.sandbox import bulk2, csv_text, query
from crmsync.sandbox.bulk_jobs import Job
from crmsync.sandbox.calls import DataCall
from crmsync.sandbox.errors import CallError, not_found
from crmsync.sandbox.soql import compile_query
from crmsync.sandbox.soql_parser import parse

NOT_COUNTED = ("retries", "totalProcessingTime")


async def answer(call: DataCall) -> Response:
    """Calls of `jobs/query...`. Raises CallError."""
    match call.segments[2:]:
        case [] if call.method == "POST":
            return await _create(call)
        case [] if call.method == "GET":
            return bulk2.list_jobs(call, "query")
        case [job_id] if call.method == "GET":
            job = bulk2.find(call, job_id, "query")
            shown = {"numberRecordsProcessed": job.processed, **dict.fromkeys(NOT_COUNTED, 0)}
            return call.answer({**bulk2.summary(job), **shown})
        case [job_id] if call.method == "PATCH":
            return await _abort(call, bulk2.find(call, job_id, "query"))
        case [job_id] if call.method == "DELETE":
            return await bulk2.delete(call, bulk2.find(call, job_id, "query"))
        case [job_id, "results"] if call.method == "GET":
            return await _results(call, bulk2.find(call, job_id, "query"))
        case [] | [_] | [_, "results"]:
            call.not_allowed("GET", "POST", "PATCH", "DELETE")
    raise not_found()


async def _create(call: DataCall) -> Response:
    body = await call.body()
    operation, text = str(body.get("operation")), str(body.get("query", ""))
    if operation not in ("query", "queryAll"):
        raise bulk2.refused(call, "ClientInputError", "operation is query or queryAll")
    try:
        statement = compile_query(call.org.schema, parse(text), deleted=operation == "queryAll")
        if not statement.columns:
            raise CallError(400, "MALFORMED_QUERY", "Aggregate queries are not supported")
    except CallError as error:
        raise CallError(400, "API_ERROR", error.message.strip()) from None
    job = bulk2.new_job(call, "query", body, operation, statement.sobject.name)
    job.query, job.state = text, "UploadComplete"
    call.org.spend_bulk_batch()
    rows = await _rows(call, job)
    answered = bulk2.summary(job)  # as it is when the job is taken on
    job.state, job.processed = "JobComplete", len(rows) - 1
    await call.org.jobs.keep(job)
    return call.answer(answered)


async def _abort(call: DataCall, job: Job) -> Response:
    if (await call.body()).get("state") != "Aborted":
        raise bulk2.refused(call, "ClientInputError", "state is Aborted")
    if job.is_ended:
        raise bulk2.refused(call, "InvalidJobState", "Aborting already Completed Job not allowed")
    job.state = "Aborted"
    await call.org.jobs.keep(job)
    return call.answer(bulk2.summary(job))


async def _results(call: DataCall, job: Job) -> Response:
    if job.state != "JobComplete":
        raise bulk2.refused(call, "InvalidJobState", f"The job is {job.state}")
    given = call.request.query_params
    start, most = given.get("locator", "0"), given.get("maxRecords", "50000")
    if not start.isdecimal() or not most.isdecimal() or not int(most):
        raise bulk2.refused(call, "ClientInputError", "Invalid locator or maxRecords")
    header, *rows = await _rows(call, job)
    at, end = int(start), int(start) + int(most)
    page = rows[at:end]
    headers = {
        "Sforce-NumberOfRecords": str(len(page)),
        "Sforce-Locator": str(end) if end < len(rows) else "null",
    }
    text = csv_text.write([header, *page], job.delimiter, job.line_ending).encode()
    return Response(text, headers={**call.usage, **headers, "Content-Type": "text/csv; charset=UTF-8"})


async def _rows(call: DataCall, job: Job) -> list[list[str]]:
    """Header and rows; kept in memory for the pages, found anew when newer results pushed them out."""
    kept = call.org.cursors.find(job.id)
    if kept is None:
        statement = compile_query(call.org.schema, parse(job.query), deleted=job.operation == "queryAll")
        kept = await query.table(call.org, statement)
        call.org.cursors.keep_as(job.id, kept)
    return kept
