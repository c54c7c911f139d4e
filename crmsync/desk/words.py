"""Say numbers and times the way people do: "3 leads", "4 min ago", "10,000+"."""

import datetime as dt

from django.utils import timezone

STEPS = ((60, "s"), (60, "min"), (24, "h"), (None, "d"))


def age(since: dt.datetime, now: dt.datetime | None = None) -> str:
    """How long ago that was, in its largest whole unit: "12 s", "4 min", "3 h", "9 d"."""
    left = max(0, int(((now or timezone.now()) - since).total_seconds()))
    for size, unit in STEPS:
        if size is None or left < size:
            return f"{left} {unit}"
        left //= size
    raise AssertionError("unreachable")


def span(begun: dt.datetime, ended: dt.datetime) -> str:
    """How long that took: "84 ms", "2.1 s", "4 min"."""
    seconds = (ended - begun).total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else age(begun, ended)


def short(moment: dt.datetime | None) -> str:
    """A moment in as few signs as it needs: the time today, the day this year, else the date."""
    if moment is None:
        return "–"
    here, now = timezone.localtime(moment), timezone.localtime()
    if here.date() == now.date():
        return f"{here:%H:%M:%S}"
    return f"{here.day} {here:%b %H:%M}" if here.year == now.year else f"{here.day} {here:%b %Y}"


def plural(count: int, one: str, many: str = "") -> str:
    """The count with its noun: "1 lead", "3 leads"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def capped(count: int, most: int) -> str:
    """A count that was not carried on beyond `most`: "10,000+"."""
    return f"{most:,}+" if count > most else f"{count:,}"
