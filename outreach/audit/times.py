"""Times as logs write them, to Unix time. Where year, offset or order is missing, it is said which are meant."""

import calendar
import datetime as dt
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Literal
from zoneinfo import ZoneInfo

MONTHS = {calendar.month_abbr[n]: n for n in range(1, 13)}  # this process never sets a locale
MILLISECONDS = 1e11
"""A larger number is no count of seconds of this age, but of milliseconds, microseconds or nanoseconds."""
TOO_LATE = dt.datetime(2200, 1, 1, tzinfo=dt.UTC).timestamp()
Order = Literal["", "dmy", "mdy"]
DIGITS = re.compile(r"\d+(\.\d*)?(e\+?\d+)?", re.IGNORECASE)
IN_SIGNS = re.compile(
    r"(?P<one>\d{1,2})(?P<sign>[/.-])(?P<two>\d{1,2})(?P=sign)(?P<year>\d{4}|\d\d)"
    r"(?:,? *[T ] *(?P<of_day>\d{1,2}:\d\d.*))?"
)
OF_DAY = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d+))?)? *(?P<half>[AP]\.?M\.?)?"
    r" *(?P<utc>Z|UTC|GMT)?(?P<offset>[+-]\d\d:?(?:\d\d)?)?(?: *UTC| *\(.*\)| *\[.*\])?",
    re.IGNORECASE,
)
WEEKDAY = r"(?:[A-Z][a-z]+,? +)?"
IN_WORDS = (  # Nov 29, 2026 ...; 29 Nov 2026 ...; 29/Nov/2026:...
    re.compile(WEEKDAY + r"(?P<month>[A-Z][a-z]{2})[a-z]*\.? +(?P<day>\d{1,2}),? +(?P<year>\d{4}),? *(?P<of_day>.*)"),
    re.compile(
        WEEKDAY + r"(?P<day>\d{1,2})[ /-](?P<month>[A-Z][a-z]{2})[a-z]*[ /-](?P<year>\d{4})[,: ] *(?P<of_day>.*)"
    ),
)
HALF_DAY = re.compile(r"\d *[AP]\.?M\b", re.IGNORECASE)
ISO_AND_ZONE = re.compile(
    r"(?:[A-Z][a-z]{2} )?(?P<when>\d{4}[-/.]\d\d?[-/.]\d\d?)(?:[T ](?P<of_day>\d{1,2}:.*))?", re.IGNORECASE
)


class DayOrMonth(ValueError):
    """A date such as 01/02/2026, and nothing says which is the day."""


@dataclass(frozen=True)
class Clock:
    """`last`: no line is later, which decides the year of a time without one. `zone`: of times that name none.
    `order`: whether 01/02/2026 is in January or in February.
    """

    last: dt.datetime
    zone: ZoneInfo
    order: Order = ""

    def syslog(self, text: str) -> float:
        """`Nov  9 10:00:02` or RFC 3339. Raises ValueError."""
        return syslog_time(text, self)

    def any(self, value: Any) -> float | None:
        """A number of seconds (or a thousandth, ...), or a date in any usual form; None for nothing.

        Raises ValueError; DayOrMonth where only `order` could tell.
        """
        if value is None or value == "" or isinstance(value, bool):
            return None
        if isinstance(value, int | float):
            return of_age(value)
        text = str(value).strip()
        if DIGITS.fullmatch(text):
            return of_age(float(text))
        try:
            return written_time(text, self)
        except DayOrMonth:
            raise
        except ValueError:
            raise ValueError(f"{text[:40]} is no time") from None

    def stamp(self, when: dt.datetime) -> float:
        try:
            seconds = (when if when.tzinfo else when.replace(tzinfo=self.zone)).timestamp()
        except (OverflowError, OSError):
            seconds = math.inf
        if not 0 <= seconds < TOO_LATE:
            raise ValueError(f"{when} is no time of a mail")
        return seconds


def of_age(number: float) -> float:
    """Seconds since 1970, whatever unit the number has. Raises ValueError for what no mail can have."""
    try:
        seconds = float(number)
    except OverflowError:
        seconds = math.inf
    for _ in ("milli", "micro", "nano"):
        seconds = seconds / 1000 if seconds > MILLISECONDS else seconds
    if not 0 <= seconds < TOO_LATE:
        raise ValueError(f"{str(number)[:30]} is no time of a mail")
    return seconds


@lru_cache(maxsize=10_000)
def written_time(text: str, clock: Clock) -> float:
    """See Clock.any."""
    try:
        return clock.stamp(dt.datetime.fromisoformat(text))
    except ValueError:
        pass
    if found := IN_SIGNS.fullmatch(text):
        return clock.stamp(in_signs(found, clock.order))
    if found := ISO_AND_ZONE.fullmatch(text):
        year, month, day = re.split("[-/.]", found["when"])
        return clock.stamp(joined(year, month, day, found["of_day"]))
    for pattern in IN_WORDS:
        if (found := pattern.fullmatch(text)) and found["month"] in MONTHS:
            with suppress(ValueError):
                return clock.stamp(joined(found["year"], str(MONTHS[found["month"]]), found["day"], found["of_day"]))
    if HALF_DAY.search(text):  # the next would leave out PM
        raise ValueError(f"{text} is no time")
    try:
        return clock.stamp(parsedate_to_datetime(text))
    except (TypeError, ValueError, IndexError):
        return clock.syslog(text)


def in_signs(found: re.Match[str], order: Order) -> dt.datetime:
    """29.11.2026, 11/29/2026 or 29-11-2026: points are only in dates that begin with the day."""
    day, month = found["one"], found["two"]
    if found["sign"] != ".":
        if not order and int(day) <= 12 and int(month) <= 12 and day != month:
            raise DayOrMonth(f"{found[0]}: day or month first?")
        if order == "mdy" or (not order and int(month) > 12):
            day, month = month, day
    year = found["year"] if len(found["year"]) == 4 else f"20{found['year']}"
    return joined(year, month, day, found["of_day"])


def joined(year: str, month: str, day: str, of_day: str | None) -> dt.datetime:
    """A moment out of its parts; midnight where no time is given. Raises ValueError."""
    date = dt.datetime(int(year), int(month), int(day))
    if not of_day:
        return date
    found = OF_DAY.fullmatch(of_day.strip())
    if found is None:
        raise ValueError(f"{of_day} is no time of day")
    hour, half = int(found["hour"]), (found["half"] or "")[:1].lower()
    if half:
        if not 1 <= hour <= 12:
            raise ValueError(f"{of_day} is no time of day")
        hour = hour % 12 + (12 if half == "p" else 0)
    part = int((found["part"] or "").ljust(6, "0")[:6])
    when = date.replace(hour=hour, minute=int(found["minute"]), second=int(found["second"] or 0), microsecond=part)
    if offset := found["offset"]:
        return dt.datetime.fromisoformat(f"{when.isoformat()}{offset.rstrip(':')}")
    return when.replace(tzinfo=dt.UTC) if found["utc"] else when


def order_of(texts: Iterable[object]) -> tuple[Order, bool]:
    """The order of day and month in a column, from its first day above 12; and whether the column needs one."""
    needed = False
    for text in texts:
        if not isinstance(text, str) or not (found := IN_SIGNS.fullmatch(text.strip())) or found["sign"] == ".":
            continue
        first, second = int(found["one"]), int(found["two"])
        if first > 12 or second > 12:
            return ("dmy" if first > 12 else "mdy"), True
        needed = needed or first != second
    return "", needed


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
