"""Rows of a file as leads: the mapping applied, and then the same normaliser that a webhook's lead goes through.

Pure. A row keeps its texts as they are: nothing becomes a number or a date, and a zero at the beginning stays.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from crmsync.csvfile import Record, trimmed
from routing.columns import FULL_NAME
from routing.errors import InvalidLead
from routing.normalise import CleanLead, clean_lead

SHORTENED = re.compile(r"\d+([.,]\d+)?[eE]\+\d+")
"""A number as a spreadsheet shows it where the column is narrow: its last digits are gone."""
REASON_MOST = 500
as_json = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True)
class Row:
    """A row that was read: a lead, with what the sender said as `payload`, or the reason why it is none."""

    number: int
    line: int
    lead: CleanLead | None = None
    payload: str = ""
    reason: str = ""


def reader_of(mapping: Sequence[str], *, match_phones: bool) -> Callable[[Record], Row]:
    """What reads a record by this mapping. Without `match_phones` a row with an e-mail address is known by that alone;
    its phone number is kept.
    """
    named = [(position, field) for position, field in enumerate(mapping) if field]

    def read(record: Record) -> Row:
        if record.problem:
            return Row(record.number, record.line, reason=record.problem)
        said = {field: text for position, field in named if (text := trimmed(record.cells[position]))}
        if FULL_NAME in said:
            said |= {name: text for name, text in split_name(said.pop(FULL_NAME)).items() if name not in said}
        if "phone" in said:
            said["phone"] = said["phone"].removeprefix("p:")  # so Meta writes numbers, lest a spreadsheet shorten them
        if SHORTENED.fullmatch(said.get("phone", "")):
            shortened = said.pop("phone")
            if "email" not in said:
                return Row(record.number, record.line, reason=f"phone {SHORTENED_SAYS}")
            said["phone_as_given"] = shortened
        try:
            lead = clean_lead(said)
        except InvalidLead as refusal:
            reason = "; ".join(f"{each['path']} {each['problem']}" for each in refusal.problems)
            return Row(record.number, record.line, reason=reason[:REASON_MOST])
        if not match_phones and lead.email:
            lead = without_phone(lead)
        return Row(record.number, record.line, lead, as_json(said))

    return read


SHORTENED_SAYS = "was shortened by a spreadsheet: format its column as text and export again"


def without_phone(lead: CleanLead) -> CleanLead:
    """The lead, known by its e-mail address only."""
    values: dict[str, Any] = {**vars(lead), "addresses": tuple(a for a in lead.addresses if a.kind == "email")}
    return CleanLead(**values)


def split_name(name: str) -> dict[str, str]:
    """First and last name out of one text: "Pat van Dam" and "van Dam, Pat" are the same; one word is the last name."""
    if "," in name:
        last, first = map(str.strip, name.split(",", 1))
    else:
        first, _, last = (part.strip() for part in name.strip().partition(" "))
        if not last:
            first, last = "", first
    return {key: text for key, text in (("first_name", first), ("last_name", last)) if text}


def share_phones(rows: Sequence[Row]) -> bool:
    """Whether people with different e-mail addresses have the same phone number: a switchboard's, or made up."""
    email_of: dict[str, str] = {}
    return any(
        email_of.setdefault(row.lead.phone, row.lead.email.lower()) != row.lead.email.lower()
        for row in rows
        if row.lead and row.lead.phone and row.lead.email
    )
