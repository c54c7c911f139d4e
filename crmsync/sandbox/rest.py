"""Single records over REST: make, read, change and delete by id, and the same by external id with upsert."""

from dataclasses import replace
from typing import Any

from starlette.responses import Response

from crmsync.sandbox import describe, ids, transactions
from crmsync.sandbox.calls import DataCall
from crmsync.sandbox.errors import RowError, no_such_column, not_found
from crmsync.sandbox.outcomes import Outcome
from crmsync.sandbox.rows import Row
from crmsync.sandbox.schema import Field, SObject
from crmsync.sandbox.store import Record
from crmsync.sandbox.values import to_json

UPSERT_ANSWERS_BODY_FROM = 46  # REST API guide: before v46 an upsert that changes a record answered 204


async def answer(call: DataCall) -> Response:
    """Calls of `sobjects/...`. Raises CallError."""
    match call.segments[1:]:
        case []:
            return call.answer(describe.every_object(call)) if call.method == "GET" else call.not_allowed("GET")
        case [name]:
            return await _object(call, call.sobject(name))
        case [name, "describe"]:
            sobject = call.sobject(name)
            return call.answer(describe.one_object(call, sobject)) if call.method == "GET" else call.not_allowed("GET")
        case [name, record_id]:
            return await _record(call, call.sobject(name), record_id)
        case [name, field_name, value]:
            return await _record_by_key(call, call.sobject(name), field_name, value)
    raise not_found()


async def _object(call: DataCall, sobject: SObject) -> Response:
    if call.method == "GET":
        return call.answer({"objectDescribe": describe.summary(call, sobject), "recentItems": []})
    if call.method != "POST":
        call.not_allowed("GET", "POST")
    outcome = await _write(call, Row("insert", sobject, _fields(await call.body())))
    if outcome.error:
        return call.refuse_row(outcome.error)
    location = f"{call.base}/sobjects/{sobject.name}/{outcome.record_id}"
    return call.answer({"id": outcome.record_id, "success": True, "errors": []}, 201, {"Location": location})


async def _record(call: DataCall, sobject: SObject, text: str) -> Response:
    record_id = ids.canonical(text)
    if record_id is None or call.org.schema.of_id(record_id) is not sobject:
        raise not_found(f"Provided external ID field does not exist or is not accessible: {text}")
    record = call.org.store.get(sobject, record_id)
    if record is None:
        raise not_found()
    if record["IsDeleted"]:
        return call.refuse_row(RowError("ENTITY_IS_DELETED", "entity is deleted"))
    if call.method == "GET":
        return _read(call, sobject, record)
    if call.method == "PATCH":
        row = Row("update", sobject, _fields(await call.body()), record_id)
    elif call.method == "DELETE":
        row = Row("delete", sobject, record_id=record_id)
    else:
        call.not_allowed("GET", "PATCH", "DELETE")
    outcome = await _write(call, row)
    return call.refuse_row(outcome.error) if outcome.error else call.answer(None, 204)


async def _record_by_key(call: DataCall, sobject: SObject, field_name: str, value: str) -> Response:
    by = external_id_field(sobject, field_name)
    found = call.org.store.ids_with(sobject, by, value)
    if len(found) > 1:
        return call.answer([f"{call.base}/sobjects/{sobject.name}/{each}" for each in found], 300)
    if call.method == "PATCH":
        return await _upsert(call, sobject, by, value)
    if call.method not in ("GET", "DELETE"):
        call.not_allowed("GET", "PATCH", "DELETE")
    if not found:
        raise not_found()
    return await _record(call, sobject, found[0])


async def _upsert(call: DataCall, sobject: SObject, by: Field, value: str) -> Response:
    fields = _fields(await call.body())
    if any(sobject.field(name) is by for name in fields):
        text = f"The {by.name} field should not be specified in the sobject data."
        return call.refuse_row(RowError("INVALID_FIELD", text, [by.name]))
    outcome = await _write(call, Row("upsert", sobject, fields, key=(by, value)))
    if outcome.error:
        return call.refuse_row(outcome.error)
    if call.version < UPSERT_ANSWERS_BODY_FROM and not outcome.created:
        return call.answer(None, 204)
    result: dict[str, Any] = {"id": outcome.record_id, "success": True, "errors": [], "created": outcome.created}
    return call.answer(result, 201 if outcome.created else 200)


def external_id_field(sobject: SObject, name: str) -> Field:
    """The field records may be named by. Raises CallError 404."""
    by = sobject.field(name)
    if by is None or not by.external_id:
        raise not_found(f"Provided external ID field does not exist or is not accessible: {name}")
    return by


def _read(call: DataCall, sobject: SObject, record: Record) -> Response:
    wanted = list(sobject.fields.values())
    if "fields" in call.request.query_params:
        wanted = []
        for name in call.request.query_params["fields"].split(","):
            known = sobject.field(name.strip())
            if known is None:
                return call.refuse_row(no_such_column(name.strip(), sobject.name))
            wanted.append(known)
    url = f"{call.base}/sobjects/{sobject.name}/{record['Id']}"
    body: dict[str, Any] = {"attributes": {"type": sobject.name, "url": url}}
    body |= {known.name: to_json(known, record[known.name]) for known in wanted}
    return call.answer(body)


async def _write(call: DataCall, row: Row) -> Outcome:
    row = replace(row, allow_duplicates=call.allows_duplicates)
    (outcome,) = await transactions.run(
        call.org, [row], all_or_none=False, call=call.journal_call, assignment_rule=call.assignment_rule
    )
    return outcome


def _fields(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != "attributes"}
