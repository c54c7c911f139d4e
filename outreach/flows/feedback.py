"""Take in many reports on mails, one transaction each: a fault in one of them leaves the others taken in."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from outreach.errors import BadReport
from outreach.mail.reports import Report, read_report
from outreach.moves.feedback import KNOWN, take_in


def read_all(said: Sequence[Any], *, source: str) -> tuple[list[Report], list[tuple[int, str]]]:
    """The reports, and of those that are none their place, counted from 0, and what is wrong with them."""
    good: list[Report] = []
    bad: list[tuple[int, str]] = []
    for place, one in enumerate(said):
        try:
            good.append(read_report(one, source=source))
        except BadReport as fault:
            bad.append((place, str(fault)))
    return good, bad


def take_all_in(reports: Iterable[Report]) -> dict[str, int]:
    """Take them in, and say how many were new, known before, and changed something."""
    effects = Counter(take_in(report) for report in reports)
    known, nothing = effects.pop(KNOWN, 0), effects.pop("", 0)
    acted = sum(effects.values())
    return {"new": acted + nothing, "known": known, "acted": acted}
