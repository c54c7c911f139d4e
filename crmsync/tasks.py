"""What the queues run: one bounded batch each, nothing but ids as arguments; twice or never are both harmless."""

import logging
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from crmsync.errors import NotConfigured
from crmsync.flows import deliver as delivering
from crmsync.flows import orphans
from crmsync.flows import reap as reaping
from crmsync.models import BulkJob, OutboxMessage
from crmsync.nudge import nudge

log = logging.getLogger(__name__)

DELIVER_BUDGET_S = 20
SWEEP_EVERY = timedelta(seconds=60)


def deliver() -> dict[str, int | bool]:
    """Drain the outbox. What is due within the minute gets a nudge for its very moment; the sweep does the rest."""
    try:
        done = delivering.deliver(
            budget_s=DELIVER_BUDGET_S, mass_here=max(1, settings.CRM_WORKERS - 1), wake_others=True
        )
    except NotConfigured as error:
        log.info("not delivering: %s", error)
        return {}
    if done.more:
        nudge()
    elif (due_at := delivering.next_due_at()) and due_at < timezone.now() + SWEEP_EVERY:
        nudge(at=due_at)
    return done.as_counts()


def sweep() -> dict[str, int]:
    """The net under lost nudges: wake a worker if anything is due."""
    due = OutboxMessage.objects.due().exists() or BulkJob.objects.due().exists()
    if due:
        nudge()
    return {"nudged": int(due)}


def reap() -> dict[str, int]:
    """Take back what dead workers hold, and have it sent; abort jobs in the org that nobody recorded."""
    found = reaping.reap()
    found.orphans_aborted = orphans.sweep_orphans()
    if found.put_back:
        nudge()
        if due_at := delivering.next_due_at():
            nudge(at=due_at)
    return found.as_counts()
