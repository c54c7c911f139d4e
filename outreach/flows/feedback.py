"""Take in many reports on mails, one transaction each: a fault in one of them leaves the others taken in."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from outreach.errors import BadReport, NotAllTakenIn
from outreach.mail.reports import Report, read_report
from outreach.moves.feedback import KNOWN, take_in

log = logging.getLogger(__name__)


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


def take_all_in(reports: Sequence[Report]) -> dict[str, int]:
    """Take them in, and say how many were new, known before, and changed something.

    Raises NotAllTakenIn with the places of those that could not be, counted from 0, once all others are taken in. Only
    without a database are the others not tried.
    """
    effects: Counter[str] = Counter()
    failed: list[int] = []
    again = False
    for place, report in enumerate(reports):
        try:
            effects[take_in(report)] += 1
        except (DatabaseError, InterfaceError) as fault:
            log.error("report failed source=%s fault=%s", report.source, type(fault.__cause__ or fault).__name__)
            failed.append(place)
            again = again or isinstance(fault, OperationalError | InterfaceError)
            if not connection.is_usable():
                failed.extend(range(place + 1, len(reports)))
                break
    if failed:
        raise NotAllTakenIn(failed, again=again)
    known, nothing = effects.pop(KNOWN, 0), effects.pop("", 0)
    acted = sum(effects.values())
    return {"new": acted + nothing, "known": known, "acted": acted}
