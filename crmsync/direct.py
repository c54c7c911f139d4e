"""Rows that go to the org in one call and come back with their outcomes: REST for one, sObject Collections for more.

Upserts name records by their external id, updates and deletes by the org's own, which is looked up where Rota does not
know it: so an update can never create anything. A delete of what is not there any more is done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crmsync.answers import as_fault
from crmsync.classify import is_gone
from crmsync.errors import NO_ANSWER, CallFailed, Fault
from crmsync.gateway import Org, path_of


@dataclass(frozen=True, slots=True)
class Row:
    """One record to write: Salesforce's field names without the keys. `crm_id` is empty where Rota does not know it."""

    external_id: str
    body: Mapping[str, Any]
    crm_id: str = ""


@dataclass(frozen=True, slots=True)
class RowResult:
    """What the org said about one row: taken (then with its id, if it told), or why not."""

    crm_id: str | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be done to which object, and the field that holds Rota's key there."""

    object: str
    operation: str
    external_id_field: str


def write(org: Org, target: Target, rows: Sequence[Row], *, headers: Mapping[str, str]) -> list[RowResult]:
    """Write at most 200 rows and answer one result per row, in their order. Rows to update or delete need their id.

    Raises CallFailed where the org did not take the request, or nobody knows whether it did.
    """
    by_operation = {"upsert": upsert, "update": update, "delete": delete}
    return by_operation[target.operation](org, target, rows, headers)


def upsert(org: Org, target: Target, rows: Sequence[Row], headers: Mapping[str, str]) -> list[RowResult]:
    if len(rows) == 1:
        path = path_of(target.object, target.external_id_field, rows[0].external_id)
        answer = org.call("PATCH", path, rows[0].body, headers)
        return [RowResult(crm_id=(answer or {}).get("id"))]
    kind = {"attributes": {"type": target.object}}
    records = [{**kind, target.external_id_field: row.external_id, **row.body} for row in rows]
    path = f"composite/sobjects/{target.object}/{target.external_id_field}"
    return row_results(org.call("PATCH", path, {"allOrNone": False, "records": records}, headers), rows)


def update(org: Org, target: Target, rows: Sequence[Row], headers: Mapping[str, str]) -> list[RowResult]:
    if len(rows) == 1:
        org.call("PATCH", f"sobjects/{target.object}/{rows[0].crm_id}", rows[0].body, headers)
        return [RowResult(crm_id=rows[0].crm_id)]
    kind = {"attributes": {"type": target.object}}
    records = [{**kind, "id": row.crm_id, **row.body} for row in rows]
    return row_results(org.call("PATCH", "composite/sobjects", {"allOrNone": False, "records": records}, headers), rows)


def delete(org: Org, target: Target, rows: Sequence[Row], headers: Mapping[str, str]) -> list[RowResult]:
    try:
        if len(rows) == 1:
            org.call("DELETE", f"sobjects/{target.object}/{rows[0].crm_id}", None, headers)
            return [RowResult()]
        ids = {"ids": ",".join(row.crm_id for row in rows), "allOrNone": "false"}
        results = row_results(org.call("DELETE", "composite/sobjects", None, headers, params=ids), rows)
    except CallFailed as failed:
        if len(rows) == 1 and is_gone(failed.fault):
            return [RowResult()]
        raise
    return [RowResult() if result.fault and is_gone(result.fault) else result for result in results]


def identified(org: Org, target: Target, rows: Sequence[Row]) -> tuple[list[Row], dict[str, RowResult]]:
    """The rows with what the operation names them by, and the results, by external id, of those that have no record.

    Nothing is written. Raises CallFailed.
    """
    if target.operation == "upsert":
        return list(rows), {}
    unknown = [row.external_id for row in rows if not row.crm_id]
    found = org.ids_of(target.object, target.external_id_field, unknown) if unknown else {}
    known: list[Row] = []
    results: dict[str, RowResult] = {}
    for row in rows:
        ids = [row.crm_id] if row.crm_id else found.get(row.external_id.casefold(), [])
        if len(ids) == 1:
            known.append(replace(row, crm_id=ids[0]))
        elif ids:
            text = f"{len(ids)} records have this external id: {', '.join(ids[:5])}"
            results[row.external_id] = RowResult(fault=Fault("DUPLICATE_EXTERNAL_ID", text))
        else:
            results[row.external_id] = missing(target, row)
    return known, results


def missing(target: Target, row: Row) -> RowResult:
    """A delete of nothing is done; an update of nothing never creates."""
    if target.operation == "delete":
        return RowResult()
    text = f"No {target.object} has {target.external_id_field} {row.external_id}; an update creates none."
    return RowResult(fault=Fault("NOT_FOUND", text, (target.external_id_field,)))


def row_results(answer: Any, rows: Sequence[Row]) -> list[RowResult]:
    if not isinstance(answer, list) or len(answer) != len(rows):
        raise CallFailed(Fault(NO_ANSWER, f"{len(rows)} rows were sent; the answer does not account for them."))
    return [row_result(entry) for entry in answer]


def row_result(entry: Mapping[str, Any]) -> RowResult:
    if entry.get("success") is True:
        return RowResult(crm_id=entry.get("id"))
    errors = entry.get("errors") or [{}]
    return RowResult(fault=as_fault(errors[0], status=0))
