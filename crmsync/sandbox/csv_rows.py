"""Turns a CSV of a bulk job into rows to be written: which column is which field, and what its texts mean.

Bulk API guide v66: an empty value leaves the field as it is, `#N/A` empties it; a parent may be named by an external id
in a column like `Account.Rota_Id__c` or, where several objects may stand, `Lead:Who.Rota_Id__c`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crmsync.sandbox import ids, times
from crmsync.sandbox.csv_text import BadCsv, Line
from crmsync.sandbox.errors import RowError
from crmsync.sandbox.rows import Action, Row
from crmsync.sandbox.schema import Field, SObject
from crmsync.sandbox.values import NUMBER_TYPES

NOTHING = "#N/A"
VALUE_MOST, RECORD_MOST = 32_000, 400_000  # characters; Bulk API guide v66, "General Limits"
TRUE, FALSE = {"yes", "y", "true", "on", "1"}, {"no", "n", "false", "off", "0"}

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class Column:
    """One column: a field, or with `by` the external id field of the parent of type `parent` ("" where only one)."""

    field: Field
    by: str = ""
    parent: str = ""


def columns_of(sobject: SObject, header: Sequence[str]) -> list[Column]:
    """Raises BadCsv for a name that the object does not have, and for one that comes twice."""
    columns = [_column(sobject, name) for name in header]
    if len(set(columns)) < len(columns):
        raise BadCsv("InvalidBatch : Duplicate field name in the header")
    return columns


def row_of(
    line: Line, columns: Sequence[Column], action: Action, sobject: SObject, key: Field | None
) -> Row | RowError:
    """What the line asks for. A fault of the row is returned, for the rows beside it go on."""
    if line.complaint:
        return RowError("INVALID_CSV_ROW", line.complaint)
    if len(line.values) != len(columns):
        text = f"The number of columns in the row ({len(line.values)}) is not that of the header ({len(columns)})"
        return RowError("INVALID_CSV_ROW", text)
    if sum(map(len, line.values)) > RECORD_MOST or any(len(value) > VALUE_MOST for value in line.values):
        return RowError("STRING_TOO_LONG", f"A value is longer than {VALUE_MOST} characters")
    fields: dict[str, Any] = {}
    record_id, key_value = "", ""
    try:
        for column, text in zip(columns, line.values, strict=True):
            if column.field.type == "id":
                record_id = text
            elif key is column.field and not column.by:
                key_value = text
            elif column.by and text:
                kind = {"attributes": {"type": column.parent}} if column.parent else {}
                fields[column.field.relationship] = None if text == NOTHING else {column.by: text, **kind}
            elif text:
                fields[column.field.name] = None if text == NOTHING else json_value(column.field, text)
    except RowError as error:
        return error
    return named(action, sobject, fields, record_id, key, key_value)


def named(
    action: Action, sobject: SObject, fields: dict[str, Any], record_id: str, key: Field | None, value: str
) -> Row | RowError:
    """The row of a bulk job for what was read, with the complaint about a missing or wrong name of its record."""
    if action == "upsert" and key is not None and key.type != "id":
        if not value or value == NOTHING:
            return RowError("MISSING_ARGUMENT", f"{key.name} not specified", [key.name])
        return Row(action, sobject, fields, key=(key, value))
    if action == "upsert":
        action = "update" if record_id else "insert"
    if action == "insert":
        if record_id:
            return RowError("INVALID_FIELD_FOR_INSERT_UPDATE", "cannot specify Id in an insert call", ["Id"])
        return Row(action, sobject, fields)
    if not record_id:
        return RowError("MISSING_ARGUMENT", "Id not specified in an update call", ["Id"])
    full = ids.canonical(record_id)
    if full is None or full[:3] != sobject.prefix:
        return RowError("MALFORMED_ID", f"bad id {record_id}", ["Id"])
    return Row(action, sobject, {} if action == "delete" else fields, full)


def _column(sobject: SObject, name: str) -> Column:
    path, _, last = name.rpartition(".")
    if not path:
        known = sobject.field(name)
        if known is not None:
            return Column(known)
    else:
        kind, _, relation_name = path.rpartition(":")
        relation = sobject.relation(relation_name)
        if relation is not None and last and (not kind or kind in relation.to):
            return Column(relation, last, kind)
    raise BadCsv(f"InvalidBatch : Field name not found : {name}")


def json_value(known: Field, text: str) -> Any:
    """The JSON value that the text stands for. Raises RowError INVALID_TYPE_ON_FIELD_IN_RECORD."""
    try:
        if known.type == "boolean":
            if text.lower() in TRUE | FALSE:
                return text.lower() in TRUE
            raise ValueError(text)
        if known.type in NUMBER_TYPES | {"int"}:
            if not _NUMBER.fullmatch(text):
                raise ValueError(text)
            return float(text)
        if known.type == "date":
            return times.read_date(text)
        if known.type == "datetime":
            return times.read_date_time(text)
    except ValueError:
        message = f"{known.label}: value not of required type: {text}"
        raise RowError("INVALID_TYPE_ON_FIELD_IN_RECORD", message, [known.name]) from None
    return text
