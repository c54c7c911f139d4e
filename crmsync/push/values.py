"""One cell as the org takes it: a text that a person or a program wrote, typed by what the org says of the field.

An empty cell leaves the field alone, `#N/A` empties it. Nothing is guessed: a date is 2026-12-31 and a decimal point is
a point, for 01/02 and 1,234 mean different things to different people. `Wrong` says what would be right.
"""

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from crmsync.csvfile import trimmed
from crmsync.describe import FieldInfo
from crmsync.lockkeys import long_id

EMPTIED = "#N/A"
INT_MOST = 2**31 - 1
SHOWN = 40
YEARS = range(1700, 4001)  # Salesforce: "Date and dateTime values must be between 1700-01-01 and 4000-12-31"
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?")
DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
EMAIL = re.compile(r"[^@\s,;]+@[^@\s,;.]+(\.[^@\s,;.]+)+")
AN_ID = re.compile(r"[a-zA-Z0-9]{15}([a-zA-Z0-9]{3})?")
YES, NO = {"true", "1", "yes"}, {"false", "0", "no"}


class Wrong(ValueError):
    """The cell cannot be sent. The message goes on from the column's name: "Title has 200 characters; it holds 128"."""


def typed(field: FieldInfo, text: str) -> Any:
    """The value to send for a cell that is not empty; None for `#N/A`. Raises Wrong."""
    if text.strip() == EMPTIED:
        if not field.nillable:
            raise Wrong("cannot be empty")
        return None
    return READERS.get(field.type, read_text)(field, text)


def read_text(field: FieldInfo, text: str) -> str:
    if field.length and len(text) > field.length:
        raise Wrong(f"has {len(text):,} characters; it holds {field.length:,}")
    if field.values and text not in field.values:
        raise Wrong(
            f"does not know {shown(text)}; it takes {', '.join(field.values[:8])}{'…' * (len(field.values) > 8)}"
        )
    return text


def read_email(field: FieldInfo, text: str) -> str:
    text = trimmed(text)
    if not EMAIL.fullmatch(text):
        raise Wrong(f"is no e-mail address: {shown(text)}")
    return read_text(field, text)


def read_choices(field: FieldInfo, text: str) -> str:
    unknown = [one for one in text.split(";") if field.values and one.strip() not in field.values]
    if unknown:
        raise Wrong(f"does not know {shown(unknown[0])}; values are separated by semicolons")
    return ";".join(one.strip() for one in text.split(";"))


def read_boolean(field: FieldInfo, text: str) -> bool:
    word = trimmed(text).casefold()
    if word not in YES | NO:
        raise Wrong(f"is neither true nor false: {shown(text)}")
    return word in YES


def read_int(field: FieldInfo, text: str) -> int:
    number = read_number(field, text)
    if number != int(number) or abs(number) > INT_MOST:
        raise Wrong(f"is no whole number up to {INT_MOST:,}: {shown(text)}")
    return int(number)


def read_number(field: FieldInfo, text: str) -> int | float:
    text = trimmed(text)
    if not NUMBER.fullmatch(text):
        raise Wrong(f"is no number like 1234.5: {shown(text)}")
    exact = Decimal(text)
    if field.precision and abs(exact) >= Decimal(10) ** (field.precision - field.scale):
        raise Wrong(f"takes {field.precision - field.scale} digits before the point: {shown(text)}")
    if exact == exact.to_integral_value():
        return int(exact)
    if Decimal(json.dumps(float(exact))) != exact:
        raise Wrong(f"has more digits than can be sent exactly: {shown(text)}")
    return float(exact)


def read_date(field: FieldInfo, text: str) -> str:
    text = trimmed(text)
    try:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", text) or dt.date.fromisoformat(text).year not in YEARS:
            raise ValueError
    except ValueError:
        raise Wrong(f"is no date like 2026-12-31: {shown(text)}") from None
    return text


def read_date_time(field: FieldInfo, text: str) -> str:
    """In UTC with milliseconds, whatever its offset was."""
    text = trimmed(text)
    try:
        if not DATE_TIME.fullmatch(text):
            raise ValueError
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise Wrong(f"is no time like 2026-12-31T18:30:00Z: {shown(text)}") from None
    if moment.tzinfo is None:
        raise Wrong(f"has no time zone; write {shown(text)} with Z (UTC) or an offset like +02:00 at its end")
    utc = moment.astimezone(dt.UTC)
    if utc.year not in YEARS:
        raise Wrong(f"is beyond the years 1700 to 4000: {shown(text)}")
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03}Z"


def read_time(field: FieldInfo, text: str) -> str:
    text = trimmed(text).removesuffix("Z")
    try:
        moment = dt.time.fromisoformat(text)
        if moment.tzinfo is not None or not re.match(r"\d\d:\d\d", text):
            raise ValueError
    except ValueError:
        raise Wrong(f"is no time of day like 18:30:00Z: {shown(text)}") from None
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def read_id(field: FieldInfo, text: str) -> str:
    text = trimmed(text)
    if not AN_ID.fullmatch(text):
        raise Wrong(f"is no Salesforce id of 15 or 18 letters: {shown(text)}")
    return long_id(text)


def shown(text: str) -> str:
    """A cell's text in a message, quoted and not too long."""
    return f"“{text[:SHOWN]}{'…' if len(text) > SHOWN else ''}”"


READERS: Mapping[str, Callable[[FieldInfo, str], Any]] = {
    "email": read_email,
    "multipicklist": read_choices,
    "boolean": read_boolean,
    "int": read_int,
    "long": read_number,
    "double": read_number,
    "currency": read_number,
    "percent": read_number,
    "date": read_date,
    "datetime": read_date_time,
    "time": read_time,
    "reference": read_id,
}
UNSENDABLE = {"base64", "address", "location", "complexvalue", "anyType", "id"}
"""Types of fields that no cell can fill: files, compounds of other fields, the record's own id."""
