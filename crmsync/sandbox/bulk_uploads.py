"""Reads what was uploaded to a bulk job, CSV, JSON or XML, into the rows of a batch."""

import json
from typing import Any
from xml.etree import ElementTree

from crmsync.sandbox import csv_rows, csv_text
from crmsync.sandbox.bulk_jobs import Batch, Job, Jobs
from crmsync.sandbox.csv_text import BadCsv
from crmsync.sandbox.errors import RowError
from crmsync.sandbox.outcomes import Outcome
from crmsync.sandbox.rows import Action, Row
from crmsync.sandbox.schema import Field, SObject

ACTIONS: dict[str, Action] = {
    "insert": "insert",
    "update": "update",
    "upsert": "upsert",
    "delete": "delete",
    "hardDelete": "delete",
}
NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"
TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"


def load(jobs: Jobs, job: Job, batch: Batch) -> None:
    """Fill the batch with its rows and the results that are known already. Raises BadCsv with the job's message."""
    sobject, data = jobs.sobject(job), jobs.uploads[batch.id]
    action = ACTIONS[job.operation]
    key = sobject.field(job.key) if job.key else None
    if job.content_type == "CSV":
        # 1.0 takes either line ending without being told
        is_crlf = data.split(b"\n", 1)[0].endswith(b"\r")
        line_ending = job.line_ending if job.api == "2" else "CRLF" if is_crlf else "LF"
        batch.header, lines = csv_text.read(data, job.delimiter, line_ending)
        columns = csv_rows.columns_of(sobject, batch.header)
        batch.lines = [line.values or [line.complaint] for line in lines]
        batch.rows = [csv_rows.row_of(line, columns, action, sobject, key) for line in lines]
    else:
        records = _from_json(data) if job.content_type == "JSON" else _from_xml(data)
        batch.rows = [_row(record, action, sobject, key) for record in records]
    batch.results = [None] * len(batch.rows)
    for place, outcome in jobs.earlier_results(batch):
        batch.note(place, outcome)


def _from_json(data: bytes) -> list[dict[str, Any]]:
    try:
        records = json.loads(data)
    except ValueError:
        raise BadCsv("InvalidBatch : Failed to parse JSON") from None
    if not isinstance(records, list) or not all(isinstance(each, dict) for each in records):
        raise BadCsv("InvalidBatch : A list of records is needed")
    return records


def _from_xml(data: bytes) -> list[dict[str, Any]]:
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError:
        raise BadCsv("InvalidBatch : Failed to parse XML") from None
    return [_element(record) for record in root]


def _element(record: ElementTree.Element) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for each in record:
        name = each.tag.rpartition("}")[2]
        if each.get(NIL) == "true":
            fields[name] = None
        elif len(each):
            inner = each.find("{*}sObject")
            fields[name] = _element(each if inner is None else inner)
        elif each.text:
            fields[name] = each.text
    kind = fields.pop("type", None)
    return {**fields, "attributes": {"type": kind}} if isinstance(kind, str) else fields


def _row(record: dict[str, Any], action: Action, sobject: SObject, key: Field | None) -> Row | RowError:
    fields: dict[str, Any] = {}
    record_id, key_value = "", ""
    try:
        for name, value in record.items():
            known = sobject.field(name)
            if name == "attributes":
                continue
            if known is not None and known.type == "id":
                record_id = str(value or "")
            elif known is not None and known is key:
                key_value = str(value or "")
            elif known is not None and isinstance(value, str) and known.type not in ("string", "textarea"):
                fields[name] = csv_rows.json_value(known, value) if value else None
            else:
                fields[name] = value
    except RowError as error:
        return error
    return csv_rows.named(action, sobject, fields, record_id, key, key_value)


def empty_outcome() -> Outcome:
    """What is shown for a row of a failed 1.0 batch that was not processed."""
    return Outcome(error=RowError("NOT_PROCESSED", "Records not processed"))
