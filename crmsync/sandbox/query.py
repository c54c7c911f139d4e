"""Answers SOQL queries in pages of 2,000 records; what a query found stays as it was while its pages are fetched."""

from typing import Any

from starlette.responses import Response

from crmsync.sandbox import setup_objects
from crmsync.sandbox.calls import DataCall
from crmsync.sandbox.errors import CallError, not_found
from crmsync.sandbox.org import Org
from crmsync.sandbox.soql import Column, Statement, compile_query
from crmsync.sandbox.soql_parser import parse
from crmsync.sandbox.values import to_json

PAGE = 2_000  # "SOQL and SOSL Reference", query cursors


async def answer(call: DataCall) -> Response:
    """Calls of `query/?q=`, of `queryAll`, which finds deleted records too, and of the `nextRecordsUrl` it gave. Raises
    CallError."""
    if call.method != "GET":
        call.not_allowed("GET")
    match call.segments[1:]:
        case []:
            return await _first_page(call)
        case [place]:
            locator, _, offset = place.rpartition("-")
            records = call.org.cursors.find(locator)
            if records is None or not offset.isdecimal() or int(offset) >= len(records):
                raise CallError(400, "INVALID_QUERY_LOCATOR", "invalid query locator")
            return call.answer(_page(call, records, locator, int(offset)))
    raise not_found()


async def _first_page(call: DataCall) -> Response:
    text = call.request.query_params.get("q", "")
    if not text.strip():
        raise CallError(400, "MALFORMED_QUERY", "A query string has to be specified")
    query = parse(text)
    if query.from_name.text in setup_objects.DATA:
        return call.answer(setup_objects.found(call.org, query, setup_objects.DATA))
    deleted = call.segments[0].lower() == "queryall"
    statement = compile_query(call.org.schema, query, deleted=deleted)
    rows = await call.org.store.query(statement.sql, statement.parameters)
    if not statement.columns:
        return call.answer({"totalSize": rows[0][0], "done": True, "records": []})
    records = [record(call, statement, row) for row in rows]
    locator = call.org.cursors.keep(records) if len(records) > PAGE else ""
    return call.answer(_page(call, records, locator, 0))


async def table(org: Org, statement: Statement) -> list[list[str]]:
    """What the query finds as the header and the texts of a CSV."""
    found = await org.store.query(statement.sql, statement.parameters)
    header = [f"{each.parent}.{each.field.name}" if each.parent else each.field.name for each in statement.columns]
    skip = 1 + len(statement.parents)
    columns = statement.columns
    return [
        header,
        *([_text(column, value) for column, value in zip(columns, row[skip:], strict=True)] for row in found),
    ]


def _text(column: Column, value: Any) -> str:
    if value is None:
        return ""
    if column.field.type == "boolean":
        return "true" if value else "false"
    if column.field.type == "datetime":
        return str(value).replace("+0000", "Z")
    return str(value)


def _page(call: DataCall, records: list[dict[str, Any]], locator: str, offset: int) -> dict[str, Any]:
    end = offset + PAGE
    page: dict[str, Any] = {"totalSize": len(records), "done": end >= len(records)}
    if not page["done"]:
        page["nextRecordsUrl"] = f"{call.base}/query/{locator}-{end}"
    return {**page, "records": records[offset:end]}


def record(call: DataCall, statement: Statement, row: tuple[Any, ...]) -> dict[str, Any]:
    """One found record as JSON answers show it, the fields of a parent under the name of the relation."""
    record_id, *rest = row
    parent_ids = dict(zip(statement.parents, rest, strict=False))
    shown_record: dict[str, Any] = {"attributes": _attributes(call, statement.sobject.name, record_id)}
    for column, value in zip(statement.columns, rest[len(parent_ids) :], strict=True):
        shown = to_json(column.field, value)
        if column.parent_object is None:
            shown_record[column.field.name] = shown
        elif parent_ids[column.parent] is None:
            shown_record[column.parent] = None
        else:
            attributes = _attributes(call, column.parent_object.name, parent_ids[column.parent])
            shown_record.setdefault(column.parent, {"attributes": attributes})[column.field.name] = shown
    return shown_record


def _attributes(call: DataCall, name: str, record_id: str) -> dict[str, str]:
    return {"type": name, "url": f"{call.base}/sobjects/{name}/{record_id}"}
