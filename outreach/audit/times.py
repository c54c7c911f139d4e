"""Times as logs write them, to Unix time. Where a year or an offset is missing, it is said which are meant."""

import calendar
import datetime as dt
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

MONTHS = {calendar.month_abbr[n]: n for n in range(1, 13)}  # this process never sets a locale
MILLISECONDS = 1e11
"""A larger number is no count of seconds of this age."""


@dataclass(frozen=True)
class Clock:
    """`last`: no line is later, which decides the year of a time without one. `zone`: of times that name none."""

    last: dt.datetime
    zone: ZoneInfo

    def syslog(self, text: str) -> float:
        """`Nov  9 10:00:02` or RFC 3339. Raises ValueError."""
        return syslog_time(text, self)

    def any(self, value: Any) -> float | None:
        """A number of seconds or milliseconds, ISO 8601 or RFC 5322; None for nothing. Raises ValueError."""
        if value is None or value == "" or isinstance(value, bool):
            return None
        if isinstance(value, int | float):
            return value / 1000 if value > MILLISECONDS else float(value)
        text = str(value).strip()
        if text.replace(".", "", 1).isdigit():
            return self.any(float(text))
        try:
            return self.stamp(dt.datetime.fromisoformat(text))
        except ValueError:
            pass
        try:
            return self.stamp(parsedate_to_datetime(text))
        except (TypeError, ValueError):
            return self.syslog(text)

    def stamp(self, when: dt.datetime) -> float:
        return (when if when.tzinfo else when.replace(tzinfo=self.zone)).timestamp()


@lru_cache(maxsize=10_000)
def syslog_time(text: str, clock: Clock) -> float:
    """See Clock.syslog. Kept, since many lines share a second."""
    if text[:1].isdigit():
        return clock.stamp(dt.datetime.fromisoformat(text))
    month, day, *rest = text.split()
    (of_day,) = (one for one in rest if ":" in one)
    year = [one for one in rest if ":" not in one]
    if month not in MONTHS:
        raise ValueError(f"{text} is no time")
    hour, minute, second = of_day.split(":")
    whole, _, part = second.partition(".")
    given = (MONTHS[month], int(day), int(hour), int(minute), int(whole), int(part.ljust(6, "0")[:6] or 0))
    if year:
        return clock.stamp(dt.datetime(int(year[0]), *given))
    latest = clock.last.astimezone(clock.zone)
    for guess in range(latest.year, latest.year - 9, -1):  # the 29th of February has to be looked for
        try:
            when = dt.datetime(guess, *given, tzinfo=clock.zone)
        except ValueError:
            continue
        if when <= latest:
            return when.timestamp()
    raise ValueError(f"{text} is no time")
