"""What may stand behind an option: anything else is wrong usage, told before anything is done (exit 2)."""

import math
from argparse import ArgumentTypeError
from collections.abc import Callable

from outreach.models import JobLock
from routing.normalise import UNSTORABLE

JOB_MOST = JobLock._meta.get_field("name").max_length or 0


def whole(*, most: int) -> Callable[[str], int]:
    """A reader of whole numbers from 1 to `most`."""

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and 1 <= int(text[:20]) <= most:
            return int(text)
        raise ArgumentTypeError(f"{text!r} is no whole number from 1 to {most:,}")

    return read


def positive(text: str) -> float:
    """A number above 0, which is not infinite either."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number <= 0:
        raise ArgumentTypeError(f"{text!r} is no number above 0")
    return number


def job(text: str) -> str:
    """The name of a job, as its lock keeps it."""
    name = text.strip()
    if not name or len(name) > JOB_MOST or UNSTORABLE.search(name):
        raise ArgumentTypeError(f"a name has from 1 to {JOB_MOST} characters")
    return name
