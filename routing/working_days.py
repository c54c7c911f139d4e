"""Turn "Monday to Friday, nine to five, until Christmas" into shifts, in the rep's own time zone."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.db import models

LONGEST = timedelta(days=180)


class Again(models.TextChoices):
    """On which days the same hours hold again."""

    ONCE = "once", "On this day only"
    WEEKDAYS = "weekdays", "Monday to Friday"
    DAILY = "daily", "Every day"
    WEEKLY = "weekly", "The same day every week"


def ranges(
    *, zone: str, first: date, last: date, begins: time, ends: time, again: str
) -> list[tuple[datetime, datetime]]:
    """The shifts as (from, to) in UTC. Hours that end before they begin go past midnight.

    On the night the clocks change a shift is an hour longer or shorter, as the rep's own clock says.
    """
    here = ZoneInfo(zone)
    found = []
    for day in _days(first, last, again):
        start = datetime.combine(day, begins, here)
        end = datetime.combine(day if ends > begins else day + timedelta(days=1), ends, here)
        found.append((start.astimezone(UTC), end.astimezone(UTC)))
    return found


def _days(first: date, last: date, again: str) -> Iterator[date]:
    if again == Again.ONCE:
        yield first
        return
    day = first
    while day <= last:
        if again != Again.WEEKDAYS or day.weekday() < 5:
            yield day
        day += timedelta(days=7 if again == Again.WEEKLY else 1)
