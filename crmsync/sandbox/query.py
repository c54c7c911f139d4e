"""Answers SOQL queries in pages of 2,000 records; what a query found stays as it was while its pages are fetched."""

from typing import Any

from starlette.responses import Response

from crmsync.sandbox.calls import DataCall
from crmsync.sandbox.errors import CallError, not_found
from crmsync.sandbox.soql import Statement, compile_query
from crmsync.sandbox.soql_parser import parse
from crmsync.sandbox.values import to_json

PAGE = 2_000  # "SOQL and SOSL Reference", query cursors


async def answer(call: DataCall) -> Response:
    """Calls of `query/?q=` and of the `nextRecordsUrl` it gave. Raises CallError."""
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
    statement = compile_query(call.org.schema, query)
    rows = await call.org.store.query(statement.sql, statement.parameters)
    if not statement.columns:
        return call.answer({"totalSize": rows[0][0], "done": True, "records": []})
    records = [_record(call, statement, row) for row in rows]
    locator = call.org.cursors.keep(records) if len(records) > PAGE else ""
    return call.answer(_page(call, records, locator, 0))


def _page(call: DataCall, records: list[dict[str, Any]], locator: str, offset: int) -> dict[str, Any]:
    end = offset + PAGE
    page: dict[str, Any] = {"totalSize": len(records), "done": end >= len(records)}
    if not page["done"]:
        page["nextRecordsUrl"] = f"{call.base}/query/{locator}-{end}"
    return {**page, "records": records[offset:end]}


def _record(call: DataCall, statement: Statement, row: tuple[Any, ...]) -> dict[str, Any]:
    record_id, *rest = row
    parent_ids = dict(zip(statement.parents, rest, strict=False))
    record: dict[str, Any] = {"attributes": _attributes(call, statement.sobject.name, record_id)}
    for column, value in zip(statement.columns, rest[len(parent_ids) :], strict=True):
        shown = to_json(column.field, value)
        if column.parent_object is None:
            record[column.field.name] = shown
        elif parent_ids[column.parent] is None:
            record[column.parent] = None
        else:
            attributes = _attributes(call, column.parent_object.name, parent_ids[column.parent])
            record.setdefault(column.parent, {"attributes": attributes})[column.field.name] = shown
    return record


def _attributes(call: DataCall, name: str, record_id: str) -> dict[str, str]:
    return {"type": name, "url": f"{call.base}/sobjects/{name}/{record_id}"}
