"""Points in time as the org writes them: UTC, milliseconds, one fixed form that also sorts as text."""

import re
from datetime import UTC, date, datetime

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def stamp(moment: datetime) -> str:
    """`2026-03-01T10:00:00.000+0000`, the form of every date-time in a REST answer."""
    moment = moment.astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}+0000"


def now() -> str:
    """This moment as a stamp."""
    return stamp(datetime.now(UTC))


def read_date_time(text: str) -> str:
    """A date-time with its offset, as a stamp. Raises ValueError when the text is none."""
    if not _DATE_TIME.fullmatch(text):
        raise ValueError(text)
    return stamp(datetime.fromisoformat(text))


def read_date(text: str) -> str:
    """A plain day; a date never moves with a time zone. Raises ValueError when the text is none."""
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text).isoformat()
