"""Undo a run of `assign_waiting`: leads that nobody has touched since wait again, and their turns are given back.

Nothing is deleted: the assignments end as undone. Whoever is present takes the leads in their turn, as the team stands
by then, and the CRM is told of the new owner; until then it shows the old one, for a record there has one always.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from routing.errors import RunNotUndone
from routing.models import Assignment, InboundEvent, Lead, Run
from routing.reassign import let_wait, lock_counts
from routing.touched import touched
from routing.turnstiles import hold_turnstiles

BATCH = 200
"""Leads in one transaction: a turnstile is held no longer than that takes."""
UNDONE = Assignment.EndReason.UNDONE
UNDO_H = 24
"""Hours within which a run can be undone: after that the reps have got to know the leads."""


@dataclass
class Undone:
    """Leads that wait again, and how many were left with their reps for which reason."""

    returned: int = 0
    left: Counter[str] = field(default_factory=Counter)


def undoable() -> QuerySet[Run]:
    """Runs that were not undone and are young enough."""
    return Run.objects.filter(undone_at=None, made_at__gte=Now() - timedelta(hours=UNDO_H))


def undo(*, run_id: int, by: str) -> Undone:
    """Let the leads of a run wait again that nobody has touched since. Opens a transaction for each batch of leads.

    If it dies half way, undoing again does the rest. Raises RunNotUndone.
    """
    run = undoable().filter(pk=run_id).first()
    if run is None:
        raise RunNotUndone
    undone = Undone()
    for lead_ids in _given(run):
        with transaction.atomic(durable=True):
            _undo_batch(run, lead_ids, by, undone)
    said = {"returned": undone.returned, "left": dict(undone.left)}
    Run.objects.filter(pk=run_id, undone_at=None).update(undone_at=Now(), undone_by=by[:150], undone=said)
    return undone


def _given(run: Run) -> Iterator[list[int]]:
    """The leads that the run gave out and no undo of it has taken back yet, a batch at a time."""
    after = 0
    rest = Assignment.objects.filter(run=run).exclude(end_reason=UNDONE, end_note=_note(run))
    leads = rest.order_by("lead_id").values_list("lead_id", flat=True)
    while batch := list(leads.filter(lead_id__gt=after)[:BATCH]):
        yield batch
        after = batch[-1]


def _note(run: Run) -> str:
    return f"{run} was undone"


def _undo_batch(run: Run, lead_ids: Sequence[int], by: str, undone: Undone) -> None:
    """Locks leads, turnstiles, counters; what was done with a locked lead stays as it is."""
    list(
        Lead.objects.filter(pk__in=lead_ids).order_by("pk").select_for_update(no_key=True).values_list("pk", flat=True)
    )
    ours = Assignment.objects.filter(run=run, lead_id__in=lead_ids).select_related("membership", "roster")
    hold_turnstiles(team_ids={each.team_id for each in ours})
    lock_counts({each.membership.rep_id for each in ours})
    because = touched(
        lead_ids=lead_ids,
        since=run.made_at,
        moved=Assignment.objects.filter(Q(run=run) & (Q(ended_at__isnull=False) | ~Q(chosen_by=""))),
        news=InboundEvent.objects.filter(received_at__gte=run.made_at),
    )
    held = [each for each in ours if each.lead_id not in because]
    let_wait(held, by=by[:150], note=_note(run))
    undone.returned += len(held)
    undone.left.update(because.values())
