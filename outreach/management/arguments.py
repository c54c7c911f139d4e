"""What may stand behind the senders' own options; anything else is wrong usage, told before anything is done."""

from argparse import ArgumentTypeError

from outreach.models import JobLock
from routing.normalise import UNSTORABLE

JOB_MOST = JobLock._meta.get_field("name").max_length or 0


def job(text: str) -> str:
    """The name of a job, as its lock keeps it."""
    name = text.strip()
    if not name or len(name) > JOB_MOST or UNSTORABLE.search(name):
        raise ArgumentTypeError(f"a name has from 1 to {JOB_MOST} characters")
    return name
