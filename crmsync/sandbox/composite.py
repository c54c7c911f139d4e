"""sObject Collections: up to 200 records in one call and one transaction, with a result for each in the order sent."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from crmsync.sandbox import ids, transactions
from crmsync.sandbox.calls import DataCall
from crmsync.sandbox.errors import CallError, RowError, not_found, rolled_back
from crmsync.sandbox.outcomes import Outcome
from crmsync.sandbox.rest import external_id_field
from crmsync.sandbox.rows import Row
from crmsync.sandbox.schema import Field, SObject

MOST_RECORDS = 200  # REST API guide, "sObject Collections"


async def answer(call: DataCall) -> Response:
    """Calls of `composite/sobjects...`. Raises CallError when the call as a whole cannot be read."""
    match call.segments[1:]:
        case ["sobjects"] if call.method == "POST":
            records, all_or_none = await _records(call)
            rows: list[Row | RowError] = [Row("insert", _type_of(call, each), _fields(each)) for each in records]
            return await _run(call, rows, all_or_none)
        case ["sobjects"] if call.method == "PATCH":
            records, all_or_none = await _records(call)
            return await _run(call, [_update(call, each) for each in records], all_or_none)
        case ["sobjects"] if call.method == "DELETE":
            named = [each for each in call.request.query_params.get("ids", "").split(",") if each]
            _check_count(named)
            all_or_none = call.request.query_params.get("allOrNone", "false").lower() == "true"
            return await _run(call, [_delete(call, each) for each in named], all_or_none)
        case ["sobjects"]:
            call.not_allowed("POST", "PATCH", "DELETE")
        case ["sobjects", name, field_name]:
            sobject = call.sobject(name)
            by = external_id_field(sobject, field_name)
            if call.method != "PATCH":
                call.not_allowed("PATCH")
            records, all_or_none = await _records(call)
            return await _run(call, [_upsert(call, each, sobject, by) for each in records], all_or_none)
    raise not_found()


async def _records(call: DataCall) -> tuple[list[dict[str, Any]], bool]:
    body = await call.body()
    records = body.get("records")
    if not isinstance(records, list) or not all(isinstance(each, dict) for each in records):
        raise CallError(400, "JSON_PARSER_ERROR", "records: a list of records is required")
    _check_count(records)
    return records, body.get("allOrNone") is True


def _check_count(given: Sequence[object]) -> None:
    if not given:
        raise CallError(400, "MISSING_ARGUMENT", "At least one record is required")
    if len(given) > MOST_RECORDS:
        text = f"record limit reached. cannot submit more than {MOST_RECORDS} records into this call"
        raise CallError(400, "EXCEEDED_ID_LIMIT", text)


def _type_of(call: DataCall, record: dict[str, Any]) -> SObject:
    attributes = record.get("attributes")
    name = attributes.get("type") if isinstance(attributes, dict) else None
    if not isinstance(name, str):
        raise CallError(400, "MISSING_ARGUMENT", "attributes.type is required in each record")
    sobject = call.org.schema.find(name)
    if sobject is None:
        raise CallError(400, "INVALID_TYPE", f"sObject type '{name}' is not supported.")
    return sobject


def _update(call: DataCall, record: dict[str, Any]) -> Row | RowError:
    sobject = _type_of(call, record)
    named = record.get("id", record.get("Id"))
    if not named:
        return RowError("MISSING_ARGUMENT", "Id not specified in an update call", ["Id"])
    record_id = ids.canonical(str(named))
    if record_id is None:
        return RowError("MALFORMED_ID", f"malformed id {named}", ["Id"])
    fields = {name: value for name, value in _fields(record).items() if name.lower() != "id"}
    return Row("update", sobject, fields, record_id)


def _delete(call: DataCall, named: str) -> Row | RowError:
    record_id = ids.canonical(named)
    sobject = call.org.schema.of_id(record_id) if record_id else None
    if record_id is None or sobject is None:
        return RowError("MALFORMED_ID", f"malformed id {named}", ["Id"])
    return Row("delete", sobject, record_id=record_id)


def _upsert(call: DataCall, record: dict[str, Any], sobject: SObject, by: Field) -> Row | RowError:
    if _type_of(call, record) is not sobject:
        raise CallError(400, "MISMATCHING_TYPES", f"every record must be of type {sobject.name}, as in the address")
    fields = _fields(record)
    keys = [name for name in fields if sobject.field(name) is by]
    value = fields.pop(keys[0]) if keys else None
    if not isinstance(value, str) or not value:
        return RowError("MISSING_ARGUMENT", f"{by.name} not specified", [by.name])
    return Row("upsert", sobject, fields, key=(by, value))


def _fields(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "attributes"}


async def _run(call: DataCall, asked: list[Row | RowError], all_or_none: bool) -> Response:
    rows = [replace(each, allow_duplicates=call.allows_duplicates) for each in asked if isinstance(each, Row)]
    if all_or_none and len(rows) < len(asked):
        outcomes = [Outcome(each.record_id, error=rolled_back()) for each in rows]
    else:
        rule = call.assignment_rule
        outcomes = await transactions.run(
            call.org, rows, all_or_none=all_or_none, call=call.journal_call, assignment_rule=rule
        )
    ran = iter(outcomes)
    upsert = len(call.segments) > 2
    results = [_result(next(ran) if isinstance(each, Row) else Outcome(error=each), upsert) for each in asked]
    return call.answer(results)


def _result(outcome: Outcome, upsert: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"id": outcome.record_id} if outcome.record_id else {}
    result["success"] = outcome.error is None
    result["errors"] = []
    if outcome.error:
        error = outcome.error
        result["errors"] = [{"statusCode": error.code, "message": error.message, "fields": list(error.fields)}]
    return {**result, "created": outcome.created} if upsert else result
