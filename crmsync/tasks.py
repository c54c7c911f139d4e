"""What the queues run: one bounded batch each, nothing but ids as arguments; twice or never are both harmless."""

import logging
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from crmsync.errors import CallFailed, CrmSyncError, NotConfigured
from crmsync.flows import deliver as delivering
from crmsync.flows import orphans
from crmsync.flows import push as pushing
from crmsync.flows import reap as reaping
from crmsync.flows.prune import prune
from crmsync.gateway import connect
from crmsync.models import Batch, BulkJob, OutboxMessage
from crmsync.moves import batches
from crmsync.moves.open_batches import waiting_since
from crmsync.nudge import ask, nudge

log = logging.getLogger(__name__)

DELIVER_BUDGET_S = 20
SWEEP_EVERY = timedelta(seconds=60)
BATCH_BUDGET_S = 20
PRUNE_BUDGET_S = 20


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
    urgent = OutboxMessage.objects.ripe().filter(priority=OutboxMessage.Priority.INTERACTIVE)
    due = urgent.exists() or waiting_since() is not None or BulkJob.objects.due().exists()
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


def load_batch(batch_id: int) -> dict[str, bool]:
    """Queue rows of an uploaded mass update for a while; what is left is the next task's."""
    try:
        left = pushing.load_uploaded(batch_id=batch_id, org=connect(), budget_s=BATCH_BUDGET_S)
    except (CallFailed, CrmSyncError) as error:
        log.warning("mass update not queued further batch=%s: %s", batch_id, error)
        return {}
    if left:
        ask("crmsync.tasks.load_batch", batch_id)
    return {"left": left}


def cancel_batch(batch_id: int) -> dict[str, int | bool]:
    """Take waiting rows of a cancelled mass update out of the outbox for a while."""
    cancelled, left = pushing.go_on_cancelling(batch_id=batch_id, budget_s=BATCH_BUDGET_S)
    if left:
        ask("crmsync.tasks.cancel_batch", batch_id)
    return {"cancelled": cancelled, "left": left}


def look_after_batches() -> dict[str, int]:
    """The net under lost tasks: mass updates that are half queued or half cancelled, and those that have ended."""
    loading = list(Batch.objects.loading().filter(parts__isnull=False).distinct().values_list("pk", flat=True))
    for pk in loading:
        ask("crmsync.tasks.load_batch", pk)
    half = Batch.objects.filter(status=Batch.Status.CANCELLED, settled_at=None, rows_queued__gt=0)
    cancelling = list(half.values_list("pk", flat=True))
    for pk in cancelling:
        ask("crmsync.tasks.cancel_batch", pk)
    return {"loading": len(loading), "cancelling": len(cancelling), "ended": batches.note_settled()}


def prune_outbox() -> dict[str, int]:
    """Delete what settled long ago and nobody needs any more, for a while."""
    return prune(budget_s=PRUNE_BUDGET_S).as_counts()
