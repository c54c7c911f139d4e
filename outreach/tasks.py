"""What the task queue does for outreach. The tables hold the work: any of these may run twice, or never."""

from dataclasses import asdict
from typing import Any

from crmsync.nudge import ask
from outreach.flows import notices, reaping, sender


def wake_sender() -> None:
    """Have the `outreach` queue send: q2's clock, which runs in the default queue, cannot put a task into another."""
    ask("outreach.tasks.send_due", queue="outreach")


def send_due() -> dict[str, Any]:
    """Send what is due, for as long as the budget of one run allows."""
    return asdict(sender.send_due(worker=sender.worker_name()))


def wake_notices() -> None:
    """Have the `outreach` queue tell reps of their leads."""
    ask("outreach.tasks.send_notices", queue="outreach")


def send_notices() -> dict[str, Any]:
    """Tell reps of the leads they were given since the last run."""
    return asdict(notices.send_notices(worker=sender.worker_name()))


def reap() -> dict[str, int]:
    """Take back what dead workers held; start and finish campaigns."""
    return asdict(reaping.reap_all())
