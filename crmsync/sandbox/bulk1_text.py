"""The two languages of Bulk API 1.0, JSON and XML: what a caller may send, and how answers are written.

A call speaks JSON when its Content-Type or Accept says so, else XML (Bulk API guide, "Route Requests").
"""

import json
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from starlette.requests import Request
from starlette.responses import Response

from crmsync.sandbox import csv_text
from crmsync.sandbox.bulk_jobs import Batch, Job, error_text
from crmsync.sandbox.outcomes import Outcome

NAMESPACE = "http://www.force.com/2009/06/asyncapi/dataload"
HEADER = '<?xml version="1.0" encoding="UTF-8"?>\n'


class Unreadable(ValueError):
    """What was sent is neither JSON nor XML of the kind that is needed."""


def speaks_json(request: Request) -> bool:
    return any("json" in request.headers.get(name, "") for name in ("content-type", "accept"))


def read(request: Request, raw: bytes) -> dict[str, Any]:
    """The fields of a jobInfo. Raises Unreadable."""
    try:
        if speaks_json(request):
            document = json.loads(raw)
            if not isinstance(document, dict):
                raise Unreadable
            return document
        return {each.tag.rpartition("}")[2]: (each.text or "").strip() for each in ElementTree.fromstring(raw)}
    except (ValueError, ElementTree.ParseError):
        raise Unreadable from None


def answer(request: Request, name: str, body: Any, status: int = 200) -> Response:
    """An element of this name with these fields; a list of them where `body` is a list."""
    if speaks_json(request):
        shown = {f"{name}": body} if isinstance(body, list) else body
        return _json(shown, status)
    if isinstance(body, list):
        inner = "".join(_element(name, each) for each in body)
        return _xml(f'<{name}List xmlns="{NAMESPACE}">{inner}</{name}List>', status)
    return _xml(_element(name, body, f' xmlns="{NAMESPACE}"'), status)


def refusal(request: Request, code: str, message: str, status: int) -> Response:
    """`exceptionCode` and `exceptionMessage`: no list, unlike the errors of the other APIs."""
    return answer(request, "error", {"exceptionCode": code, "exceptionMessage": message}, status)


def job_info(job: Job, batches: list[Batch]) -> dict[str, Any]:
    counts = {
        f"numberBatches{name}": sum(batch.state == state for batch in batches)
        for name, state in (
            ("Queued", "Queued"),
            ("InProgress", "InProgress"),
            ("Completed", "Completed"),
            ("Failed", "Failed"),
        )
    }
    return {
        "id": job.id,
        "operation": job.operation,
        "object": job.object,
        "createdById": job.created_by,
        "createdDate": job.created_at,
        "systemModstamp": job.modified_at,
        "state": job.state,
        "externalIdFieldName": job.key or None,
        "concurrencyMode": "Serial" if job.serial else "Parallel",
        "contentType": job.content_type,
        **counts,
        "numberBatchesTotal": len(batches),
        "numberRecordsProcessed": sum(batch.processed for batch in batches),
        "numberRetries": sum(batch.retries for batch in batches),
        "apiVersion": float(job.version),
        "assignmentRuleId": job.assignment_rule or None,
        "numberRecordsFailed": sum(batch.failed for batch in batches),
        "totalProcessingTime": round(sum(batch.total_ms for batch in batches)),
        "apiActiveProcessingTime": round(job.api_ms),
        "apexProcessingTime": 0,
    }


def batch_info(batch: Batch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "jobId": batch.job_id,
        "state": batch.state,
        "stateMessage": batch.message or None,
        "createdDate": batch.created_at,
        "systemModstamp": batch.modified_at,
        "numberRecordsProcessed": batch.processed,
        "numberRecordsFailed": batch.failed,
        "totalProcessingTime": round(batch.total_ms),
        "apiActiveProcessingTime": round(batch.total_ms),
        "apexProcessingTime": 0,
    }


def results(content_type: str, outcomes: list[Outcome]) -> Response:
    """What became of the rows of a batch, in the order in which they were sent."""
    if content_type == "CSV":
        rows = [["Id", "Success", "Created", "Error"]]
        for outcome in outcomes:
            success = "false" if outcome.error else "true"
            made = "true" if outcome.created and not outcome.error else "false"
            rows.append([outcome.record_id or "", success, made, error_text(outcome.error) if outcome.error else ""])
        return Response(csv_text.write(rows), media_type="text/csv; charset=UTF-8")
    plain = [_result(outcome) for outcome in outcomes]
    if content_type == "JSON":
        return _json(plain)
    inner = "".join(_element("result", each) for each in plain)
    return _xml(f'<results xmlns="{NAMESPACE}">{inner}</results>')


def result_list(content_type: str, ids: list[str]) -> Response:
    """The ids under which the result of a query batch is fetched."""
    if content_type == "JSON":
        return _json(ids)
    inner = "".join(f"<result>{each}</result>" for each in ids)
    return _xml(f'<result-list xmlns="{NAMESPACE}">{inner}</result-list>')


def _result(outcome: Outcome) -> dict[str, Any]:
    errors = []
    if outcome.error:
        error = outcome.error
        shown = {"message": error.message, "fields": list(error.fields), "statusCode": error.code}
        errors = [{**shown, "extendedErrorDetails": None}]
    success = outcome.error is None
    return {"success": success, "created": outcome.created and success, "id": outcome.record_id, "errors": errors}


def _element(name: str, value: Any, attributes: str = "") -> str:
    if isinstance(value, dict):
        inner = "".join(_element(key, each) for key, each in value.items())
        return f"<{name}{attributes}>{inner}</{name}>"
    if isinstance(value, list):
        return "".join(_element(name, each) for each in value)
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"<{name}>{escape(text)}</{name}>"


def _json(body: Any, status: int = 200) -> Response:
    return Response(json.dumps(body, ensure_ascii=False), status, media_type="application/json")


def _xml(text: str, status: int = 200) -> Response:
    return Response(HEADER + text, status, media_type="application/xml")
