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
from routing.turnstiles import hold_turnstiles

BATCH = 200
"""Leads in one transaction: a turnstile is held no longer than that takes."""
CLOSED = "was closed already"
NEWS = "has heard from its sender again"
BY_HAND = "was given to somebody by hand, or moved on"
ELSEWHERE = "is in use elsewhere, in a campaign perhaps"


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
    """Locks as closing does, and the turnstiles before the counters (DESIGN section 5); looks after it has locked."""
    addresses = LeadAddress.objects.filter(lead_id__in=lead_ids, open=True).order_by("kind", "value")
    list(addresses.select_for_update(no_key=True).values_list("pk", flat=True))
    wanted = Lead.objects.filter(pk__in=lead_ids).order_by("pk")
    list(wanted.select_for_update(no_key=True).values_list("pk", flat=True))
    teams = set(Assignment.objects.current().filter(lead_id__in=lead_ids).values_list("team_id", flat=True))
    hold_turnstiles(team_ids=teams)
    because = _touched(row, lead_ids)
    going = [lead_id for lead_id in lead_ids if lead_id not in because]
    held = list(Assignment.objects.current().filter(lead_id__in=going).select_related("membership", "roster"))
    note = f"import {row.pk} was undone"
    undone.closed += leads.close(lead_ids=going, because=Assignment.EndReason.UNDONE, by=by[:150], note=note)
    give_back(assignments=held, reason=f"Undone: {note}", by=by[:150])
    undone.left.update(because.values())
    undone.examples += list(because)[: 20 - len(undone.examples)]


def _touched(row: Import, lead_ids: Sequence[int]) -> dict[int, str]:
    """Those of the leads that somebody has touched since, with what happened."""
    because: dict[int, str] = {}
    for relation in Lead._meta.related_objects:
        model = relation.related_model
        if not isinstance(model, str) and model._meta.app_label != Lead._meta.app_label:
            name = relation.field.name
            found = model._base_manager.filter(**{f"{name}__in": lead_ids})
            because |= dict.fromkeys(found.values_list(name, flat=True), ELSEWHERE)
    moved = Assignment.objects.filter(lead_id__in=lead_ids).filter(~Q(chosen_by="") | Q(ended_at__isnull=False))
    because |= dict.fromkeys(moved.values_list("lead_id", flat=True), BY_HAND)
    news = InboundEvent.objects.filter(lead_id__in=lead_ids).exclude(
        source_id=row.source_id, event_id__startswith=row.event_prefix
    )
    because |= dict.fromkeys(news.values_list("lead_id", flat=True), NEWS)
    closed = Lead.objects.filter(pk__in=lead_ids, status=Lead.Status.CLOSED)
    because |= dict.fromkeys(closed.values_list("pk", flat=True), CLOSED)
    return {key: because[key] for key in lead_ids if key in because}
