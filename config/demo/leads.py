"""The leads of the demo: thirty made-up people, or one JSON lead a line from a file."""

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from routing.errors import InvalidLead
from routing.normalise import clean_lead

FIRST = ("Ada", "Bo", "Cleo", "Dov", "Esi", "Fay", "Gus", "Ines", "Jun", "Kit")
LAST = ("Novák", "Jansen", "Park", "Quist", "Tran", "Okoye")
COMPANIES = ("Northwind", "Acme", "Globex", "Initech", "Umbra", "Vandelay", "Wonka")
COUNTRIES = ("France", "Germany", "Japan", "Kenya", "United States")


@dataclass(frozen=True)
class Event:
    """One event to send: its id and the lead it tells of."""

    id: str
    lead: dict[str, Any]


class BadLeadsFile(Exception):
    """The file cannot be used: the message names the line and what is wrong with it."""


def built_in(count: int = 30) -> list[Event]:
    """`count` made-up leads. Ids and addresses are new each time, so that the demo can be run again on the same
    data.
    """
    run = secrets.token_hex(3)
    return [
        Event(
            f"demo-{run}-{number:03}",
            {
                "email": f"{FIRST[number % len(FIRST)]}.{number}.{run}@{COMPANIES[number % 7]}.example".lower(),
                "first_name": FIRST[number % len(FIRST)],
                "last_name": LAST[number % len(LAST)],
                "company": COMPANIES[number % len(COMPANIES)],
                "country": COUNTRIES[number % len(COUNTRIES)],
                "employees": 10 * (number + 1),
                "source": "webinar",
            },
        )
        for number in range(count)
    ]


def from_file(path: Path) -> list[Event]:
    """The leads of a JSON-lines file; a lead's `id` is its event id. Raises BadLeadsFile."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise BadLeadsFile(f"{path} cannot be read: {fault}") from fault
    events = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            lead = json.loads(line)
        except ValueError as fault:
            raise BadLeadsFile(f"{path}, line {number} is not JSON: {fault}") from fault
        if not isinstance(lead, dict) or not isinstance(lead.get("id"), str | int) or lead["id"] == "":
            raise BadLeadsFile(f'{path}, line {number}: wanted is one JSON object with an "id", the event id.')
        events.append(Event(str(lead["id"]), {key: value for key, value in lead.items() if key != "id"}))
    if not events:
        raise BadLeadsFile(f"{path} has no leads in it.")
    return events


def distinct(leads: Iterable[dict[str, Any]]) -> int:
    """How many leads these are, when those that share an e-mail address or phone number are one. Bad ones count not."""
    groups: list[set[tuple[str, str]]] = []
    for lead in leads:
        try:
            own = {(address.kind, address.value) for address in clean_lead(lead).addresses}
        except InvalidLead:
            continue
        sharing = [group for group in groups if group & own]
        groups = [group for group in groups if not group & own] + [own.union(*sharing)]
    return len(groups)


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """p50, p95 and max by nearest rank, rounded to a tenth; None of nothing."""
    if not values:
        return {"p50": None, "p95": None, "max": None}
    ordered = sorted(values)

    def rank(share: float) -> float:
        return round(ordered[max(0, -(-len(ordered) * int(share * 100) // 100) - 1)], 1)

    return {"p50": rank(0.5), "p95": rank(0.95), "max": round(ordered[-1], 1)}
