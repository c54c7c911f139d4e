"""The rules of single fields: what type of value each takes, how long it may be, and the words of each refusal."""

import math
import re
from typing import Any

from crmsync.sandbox import ids, times
from crmsync.sandbox.errors import RowError
from crmsync.sandbox.schema import Field

TEXT_TYPES = {"string", "textarea", "email", "phone", "url", "picklist"}
NUMBER_TYPES = {"double", "currency", "percent"}
INT_MOST = 2**31 - 1

_EMAIL = re.compile(r"[^@\s,;:<>()\[\]\"\\]+@[^@\s.,;:<>()\[\]\"\\_]+(?:\.[^@\s.,;:<>()\[\]\"\\_]+)+")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def to_stored(field: Field, value: Any) -> Any:
    """The value as the store keeps it (text, int, float or None) for a JSON value. Raises RowError.

    An empty text is no value. A bool is stored as 0 or 1, a date-time in UTC with ms, an id with 18 characters.
    """
    if value is None or value == "":
        if field.type == "boolean":
            raise _wrong_type(field, value)
        return None
    if field.type in TEXT_TYPES:
        return _text(field, value) or None
    if field.type in NUMBER_TYPES or field.type == "int":
        return _number(field, value)
    if field.type == "boolean":
        if not isinstance(value, bool):
            raise _wrong_type(field, value)
        return int(value)
    if not isinstance(value, str):
        raise _wrong_type(field, value)
    if field.type == "reference":
        return _reference(field, value)
    try:
        return times.read_date(value) if field.type == "date" else times.read_date_time(value)
    except ValueError:
        raise _wrong_type(field, value) from None


def to_json(field: Field, stored: Any) -> Any:
    """The stored value as a JSON answer shows it."""
    return bool(stored) if field.type == "boolean" else stored


def _text(field: Field, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong_type(field, value)
    text = _CONTROL.sub("", value)
    if len(text) > field.length:
        message = f"{field.label}: data value too large: {text} (max length={field.length})"
        raise RowError("STRING_TOO_LONG", message, [field.name])
    if field.type == "email" and not _EMAIL.fullmatch(text):
        raise RowError("INVALID_EMAIL_ADDRESS", f"{field.label}: invalid email address: {text}", [field.name])
    if field.restricted and text not in field.values:
        message = f"{field.label}: bad value for restricted picklist field: {text}"
        raise RowError("INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST", message, [field.name])
    return text


def _number(field: Field, value: Any) -> float | int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_type(field, value)
    if not math.isfinite(value):
        limit, number = 0, value
    elif field.type == "int":
        if value != int(value):
            raise _wrong_type(field, value)
        limit, number = INT_MOST, int(value)
    else:
        limit, number = 10 ** (field.precision - field.scale) - 1, round(float(value), field.scale)
    if abs(number) > limit:
        message = f"{field.label}: value outside of valid range on numeric field: {value}"
        raise RowError("NUMBER_OUTSIDE_VALID_RANGE", message, [field.name])
    return number


def _reference(field: Field, value: str) -> str:
    record_id = ids.canonical(value)
    if record_id is None:
        raise RowError("MALFORMED_ID", f"{field.label}: id value of incorrect type: {value}", [field.name])
    return record_id


def _wrong_type(field: Field, value: Any) -> RowError:
    """JSON of the wrong kind. The real text ends with a line and a column, which are not known here."""
    kinds = {
        str: "VALUE_STRING",
        bool: f"VALUE_{str(value).upper()}",
        int: "VALUE_NUMBER_INT",
        float: "VALUE_NUMBER_FLOAT",
    }
    kind = kinds.get(type(value), "START_ARRAY" if isinstance(value, list) else "START_OBJECT")
    text = f"Cannot deserialize instance of {field.type} from {kind} value {value}"
    return RowError("JSON_PARSER_ERROR", f"{text} or request may be missing a required field")
