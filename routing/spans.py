"""When a rep works, as moments of the world's clock rather than times on the rep's wall.

Pure functions. One definition carries it all: a time on a wall clock stands for the first moment at which that clock
shows it or a later time. So hours keep their place on the wall through every change of the clock, a time that the
clock leaps over is the moment of the leap, a time that comes twice is its first coming, spans that touch on the wall
touch in the world, and a day has 23, 24 or 25 hours, or none where the date line was moved.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

MIDNIGHT = time()
ONE_DAY = timedelta(days=1)
Range = tuple[datetime, datetime]


@dataclass(frozen=True, order=True)
class Span:
    """Working hours of one weekday (Monday is 0). An end at or before the start is on the next day; 00:00 to 00:00 is a
    whole day.
    """

    weekday: int
    start: time
    end: time


OFFICE_HOURS = tuple(Span(weekday, time(9), time(17)) for weekday in range(5))
"""The hours of a rep for whom none were entered: Monday to Friday, 09:00 to 17:00 on the rep's own clock."""


def moment(*, day: date, at: time = MIDNIGHT, zone: ZoneInfo) -> datetime:
    """The first moment, in UTC, at which a clock in `zone` shows this day and time or a later one."""
    wall = datetime.combine(day, at)
    before = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if before.astimezone(zone).replace(tzinfo=None) == wall:
        return before
    return _leap(before=wall.replace(tzinfo=zone, fold=1).astimezone(UTC), after=before, zone=zone)


def shifts(
    *, spans: Iterable[Span], zone: ZoneInfo, first: date, last: date, off: Collection[date] = ()
) -> list[Range]:
    """The (from, to) ranges in UTC worked on the local days from `first` to `last`, both included, none on days `off`.

    Ranges never overlap and never reach over a local midnight: a night's work is two of them, and a day off takes away
    exactly its own half.
    """
    by_weekday: dict[int, list[tuple[time, time, bool]]] = {}
    for span in spans:
        over_midnight = span.end <= span.start
        by_weekday.setdefault(span.weekday, []).append(
            (span.start, MIDNIGHT if over_midnight else span.end, over_midnight)
        )
        if over_midnight and span.end > MIDNIGHT:
            by_weekday.setdefault((span.weekday + 1) % 7, []).append((MIDNIGHT, span.end, False))
    found: list[Range] = []
    day = first
    while day <= last:
        if day not in off:
            found += _of_day(day=day, pieces=by_weekday.get(day.weekday(), ()), zone=zone)
        day += ONE_DAY
    return found


def union(ranges: Iterable[Range]) -> list[Range]:
    """The same moments in ranges that do not overlap, in order."""
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif start < end:
            found.append((start, end))
    return found


def minus(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """What is left of the ranges outside of those that are taken."""
    left = list(ranges)
    for begins, ends in taken:
        left = [
            piece
            for start, end in left
            for piece in ((start, min(end, begins)), (max(start, ends), end))
            if piece[0] < piece[1]
        ]
    return left


def days_of(*, start: date, end: date) -> list[date]:
    """The dates from `start` (included) to `end` (not included)."""
    return [start + timedelta(days=number) for number in range((end - start).days)]


def _of_day(*, day: date, pieces: Iterable[tuple[time, time, bool]], zone: ZoneInfo) -> list[Range]:
    """The ranges of one local day; overlapping pieces become one."""
    return union(
        (
            moment(day=day, at=start, zone=zone),
            moment(day=day + ONE_DAY if till_midnight else day, at=end, zone=zone),
        )
        for start, end, till_midnight in pieces
    )


def _leap(*, before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The moment between the two at which the zone's clock leaps forward, to the second."""
    offset = before.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=int((after - before).total_seconds()) // 2)
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after
