"""What a rule can ask about a lead, by the names people see in a condition.

Pure. A fact is what the sender said, in the lead's one form; `seen` is kept for explanations, `texts` is compared.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from routing.normalise import CleanLead, tidy
from routing.places import country_code, phone_country

KNOWN = ("email", "domain", "phone", "phone_country", "first_name", "last_name", "company", "country", "source")
"""Fields every lead has, though they may be empty. Others are named fields.<name>, with dots for what is inside."""
NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?")


def number(text: str) -> Decimal | None:
    """The number a text is, with or without commas between thousands; None if it is none."""
    text = text.replace("\u00a0", "").replace(" ", "")
    return Decimal(text.replace(",", "")) if NUMBER.fullmatch(text) else None


class Facts:
    """The facts of one lead. Asking for a field nobody sent gives nothing, never an error."""

    __slots__ = ("_countries", "_fields", "_numbers", "_texts", "_values")

    def __init__(self, values: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self._fields = fields
        self._texts: dict[str, tuple[str, ...]] = {}
        self._numbers: dict[str, tuple[Decimal, ...]] = {}
        self._countries: dict[str, frozenset[str]] = {}

    def seen(self, field: str) -> Any:
        """The value of a field as it was sent: text, number, truth value, list, or None."""
        if field in self._values:
            return self._values[field]
        if field == "phone_country":
            phone = self._values.get("phone")
            self._values[field] = phone_country(phone) if phone else ""
            return self._values[field]
        value: Any = self._fields
        for name in field.removeprefix("fields.").split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """The field's values as texts to compare, in lower case: none where it is empty, several where it is a list."""
        found = self._texts.get(field)
        if found is None:
            found = self._texts[field] = _texts(self.seen(field))
        return found

    def numbers(self, field: str) -> tuple[Decimal, ...]:
        """Those of the field's values that are numbers."""
        found = self._numbers.get(field)
        if found is None:
            read = (number(text) for text in self.texts(field))
            found = self._numbers[field] = tuple(each for each in read if each is not None)
        return found

    def countries(self, field: str) -> frozenset[str]:
        """The two-letter codes of those of the field's values that name a country."""
        found = self._countries.get(field)
        if found is None:
            found = self._countries[field] = frozenset(filter(None, map(country_code, self.texts(field))))
        return found


def facts_of(*, lead: CleanLead, source: str) -> Facts:
    """The facts of a lead that came from the source with this slug."""
    values = {
        "email": lead.email,
        "domain": lead.domain,
        "phone": lead.phone,
        "first_name": lead.first_name,
        "last_name": lead.last_name,
        "company": lead.company,
        "country": lead.country,
        "source": source,
    }
    return Facts(values, lead.fields)


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        text = tidy(value).casefold()
        return (text,) if text else ()
    if isinstance(value, bool):
        return ("true" if value else "false",)
    if isinstance(value, int | float):
        return (f"{value:g}" if isinstance(value, float) else str(value),)
    if isinstance(value, list | tuple):
        return tuple(text for item in value for text in _texts(item))
    return ()
