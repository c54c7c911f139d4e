"""Rows as the CSV of Bulk API 2.0 and back, where the client library's own way loses or changes values.

An empty value leaves a field as it is there, and `#N/A` empties it: hence a text that reads `#N/A` cannot go this way
at all, and an empty text, which empties a field over REST, goes as `#N/A`. Bytes are UTF-8 both ways, whatever the
answer's type says; lines end where the quoting says so, not where a text contains something like a line end.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

NOTHING = "#N/A"
# A point in time, as Python writes it; bulk jobs take milliseconds and no more. A plain date is none and never moves.
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")
# Bulk API guide v66, "General Limits": characters of a field and of a record.
FIELD_MOST, RECORD_MOST = 32_000, 400_000


def flat(record: Mapping[str, Any]) -> dict[str, str]:
    """Column name to text. A parent by its external id is a column like `Account.Rota_Id__c`, or, where `attributes`
    name its type because several may stand there, `Lead:Who.Rota_Id__c`."""
    columns: dict[str, str] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            kind = value.get("attributes", {}).get("type", "")
            for field, key in value.items():
                if field != "attributes":
                    columns[f"{kind}:{name}.{field}" if kind else f"{name}.{field}"] = as_text(key)
        else:
            columns[name] = as_text(value)
    return columns


def as_text(value: Any) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f")
    if isinstance(value, str) and INSTANT.fullmatch(value):
        moment = datetime.fromisoformat(value).astimezone(UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    return str(value)


def fits(record: Mapping[str, Any]) -> bool:
    """Whether the record means the same as a line of CSV; if not it must go by another road."""
    texts = [
        each
        for value in record.values()
        for each in (value.values() if isinstance(value, Mapping) else [value])
        if isinstance(each, str)
    ]
    return (
        NOTHING not in texts and max(map(len, texts), default=0) <= FIELD_MOST and sum(map(len, texts)) <= RECORD_MOST
    )


def encode(records: Sequence[Mapping[str, Any]]) -> bytes:
    """The lines, header first. A column that a record does not name stays empty: its field is left as it is."""
    lines = [flat(record) for record in records]
    columns = list(dict.fromkeys(name for line in lines for name in line))
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue().encode()


def decode(data: bytes) -> list[dict[str, str]]:
    """The lines of a result by column. Raises ValueError for what is no such CSV; no bytes are no lines."""
    try:
        text = data.decode("utf-8-sig")
        rows: Iterable[list[str]] = csv.reader(io.StringIO(text, newline=""), strict=True)
        header, *lines = list(rows) or [[]]
    except csv.Error as error:
        raise ValueError(str(error)) from error
    if any(len(line) != len(header) for line in lines):
        raise ValueError("A line has more or fewer values than the header.")
    return [dict(zip(header, line, strict=True)) for line in lines]
