"""Undo an import: close the leads it made that nobody has touched since, and give their turns back.

A lead that was there before is left alone, and nothing is deleted: assignments end as undone, events and verdicts stay.
What was written to the CRM stays there. After an undo the same file may be imported anew.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from routing import leads
from routing.credits import give_back
from routing.errors import WrongImportState
from routing.models import Assignment, Import, ImportRow, InboundEvent, Lead, LeadAddress
from routing.touched import touched
from routing.turnstiles import hold_turnstiles

BATCH = 200
"""Leads in one transaction: a turnstile is held no longer than that takes."""


@dataclass
class Undone:
    """Leads that were closed, and how many were left for which reason; `examples` are some of the latter's keys."""

    closed: int = 0
    left: Counter[str] = field(default_factory=Counter)
    examples: list[int] = field(default_factory=list)


def may_undo(row: Import) -> bool:
    """Whether this import has ended, made leads, was not undone, and IMPORT_UNDO_H hours have not passed since."""
    return bool(_undoable().filter(pk=row.pk).exists())


def undo(*, import_id: int, by: str) -> Undone:
    """Close the leads of an import that nobody has touched since. Opens a transaction for each batch of leads.

    If it dies half way, undoing again does the rest. Raises WrongImportState.
    """
    row = _undoable().filter(pk=import_id).first()
    if row is None:
        raise WrongImportState(
            f"An import can be undone once, after it ended, for {settings.IMPORT_UNDO_H} hours. This one cannot."
        )
    undone = Undone()
    for batch in _made(row):
        with transaction.atomic(durable=True):
            _undo_batch(row, batch, by, undone)
    found = Import.objects.filter(pk=import_id, undone_at=None)
    found.update(
        undone_at=Now(),
        undone_by=by[:150],
        undone={"closed": undone.closed, "left": dict(undone.left), "examples": undone.examples},
    )
    return undone


def _undoable():  # type: ignore[no-untyped-def]
    within = Now() - timedelta(hours=settings.IMPORT_UNDO_H)
    ended = Q(status__in=(Import.Status.FINISHED, Import.Status.CANCELLED), ended_at__gte=within)
    return Import.objects.filter(ended, undone_at=None, created__gt=0)


def _made(row: Import) -> Iterator[list[int]]:
    """The leads that the import made, a batch at a time."""
    after = 0
    rows = ImportRow.objects.filter(of=row, verdict=ImportRow.Verdict.CREATED).order_by("number")
    while batch := list(rows.filter(number__gt=after).values_list("number", "lead_id")[:BATCH]):
        yield [lead_id for _, lead_id in batch if lead_id]
        after = batch[-1][0]


def _undo_batch(row: Import, lead_ids: Sequence[int], by: str, undone: Undone) -> None:
    """Locks as closing does, and the turnstiles before the counters; looks after it has locked."""
    addresses = LeadAddress.objects.filter(lead_id__in=lead_ids, open=True).order_by("kind", "value")
    list(addresses.select_for_update(no_key=True).values_list("pk", flat=True))
    wanted = Lead.objects.filter(pk__in=lead_ids).order_by("pk")
    list(wanted.select_for_update(no_key=True).values_list("pk", flat=True))
    teams = set(Assignment.objects.current().filter(lead_id__in=lead_ids).values_list("team_id", flat=True))
    hold_turnstiles(team_ids=teams)
    own = Q(source_id=row.source_id, event_id__startswith=row.event_prefix)
    because = touched(
        lead_ids=lead_ids,
        since=row.received_at,
        moved=Assignment.objects.filter(~Q(chosen_by="") | Q(ended_at__isnull=False)),
        news=InboundEvent.objects.exclude(own),
    )
    going = [lead_id for lead_id in lead_ids if lead_id not in because]
    held = list(Assignment.objects.current().filter(lead_id__in=going).select_related("membership", "roster"))
    note = f"import {row.pk} was undone"
    undone.closed += leads.close(lead_ids=going, because=Assignment.EndReason.UNDONE, by=by[:150], note=note)
    give_back(assignments=held, reason=f"Undone: {note}", by=by[:150])
    undone.left.update(because.values())
    undone.examples += list(because)[: 20 - len(undone.examples)]
