"""Take in a request of a sender, with however many events: each counts once, and a bad one keeps no good one out.

Events that say who the lead is are taken in one by one, like those of the webhook. The others are stored together in
one transaction: those that have to be fetched, those that bring no lead, and those of which none can be made.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import transaction

from crmsync.nudge import ask
from routing.errors import EventConflict, InvalidLead
from routing.events import Note, note_all, refuse, storable
from routing.intake import Accepted, accept, waiting_no_longer
from routing.kinds.kind import Event, Incoming, Kind
from routing.mapping import map_fields
from routing.models import InboundEvent, InboundSource

logger = logging.getLogger(__name__)
Outcome = InboundEvent.Outcome


@dataclass(frozen=True)
class Arrived:
    """What became of one event: an outcome of `accept`, or fetching, refused, ignored, conflicting, or known."""

    event_id: str
    outcome: str
    because: str = ""
    accepted: Accepted | None = None


def take_in_all(
    *, source: InboundSource, kind: Kind, incoming: Incoming, events: Sequence[Event], request_id: str
) -> list[Arrived]:
    """Take in every event of a request, in its order. Raises Busy: what was taken in until then counts as known when
    the sender comes again.
    """
    alone = len(events) == 1
    notes = [note for event in events if (note := _note(event))]
    new: set[str] = set()
    if notes:
        with waiting_no_longer(), transaction.atomic(durable=True):
            new = note_all(source_id=source.pk, notes=notes, body=incoming.body, request_id=request_id)
    noted = {note.event_id: note for note in notes}
    if any(note.fetch and note.event_id in new for note in notes):
        ask("routing.tasks.fetch")
    arrived = []
    for event in events:
        if note := noted.get(event.id):
            arrived.append(Arrived(event.id, note.outcome if event.id in new else "known", note.because))
            continue
        # In a batch an event's own words stand for the body: the whole would be kept once for each.
        body = incoming.body if alone else json.dumps(storable(event.said)).encode()
        try:
            accepted = take_in(source=source, kind=kind, event=event, body=body, request_id=request_id, at=incoming.at)
        except InvalidLead as refusal:
            arrived.append(Arrived(event.id, Outcome.REFUSED, in_words(refusal)))
        except EventConflict:
            arrived.append(Arrived(event.id, "conflicting"))
        else:
            arrived.append(Arrived(event.id, accepted.outcome, accepted=accepted))
    return arrived


def take_in(*, source: InboundSource, kind: Kind, event: Event, body: bytes, request_id: str, at: float) -> Accepted:
    """Take in one event that says who the lead is. Raises as `accept` does; an event that is refused is kept."""
    event_id = event.id or made_id(body, at=at)
    payload = map_fields(event.read.fields, usual=kind.usual, mapping=source.mapping).payload
    try:
        return accept(
            source=source,
            event_id=event_id,
            body=body,
            payload=payload,
            said=storable(event.said) if kind.usual or source.mapping else None,
            request_id=request_id,
            strict=kind.answers,
        )
    except InvalidLead as refusal:
        with waiting_no_longer(), transaction.atomic(durable=True):
            refuse(source_id=source.pk, event_id=event_id, body=body, payload=event.said, because=in_words(refusal))
        logger.info("event refused source=%s problems=%s", source.slug, len(refusal.problems))
        raise


def made_id(body: bytes, *, at: float) -> str:
    """An id for an event whose sender gives none: the same words in the same minute are the same event. Sent again
    later they are a touch, which makes no second lead either.
    """
    minute = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M")
    return f"made-{minute}-{hashlib.sha256(body).hexdigest()[:40]}"


def in_words(refusal: InvalidLead) -> str:
    """Every problem with its field, and no value."""
    return "; ".join(f"{problem['path']} {problem['problem']}" for problem in refusal.problems)


def _note(event: Event) -> Note | None:
    """The event as something that makes no lead now; None where it says who the lead is."""
    said = storable(event.said)
    if event.bad:
        return Note(event.id, said, Outcome.REFUSED, event.bad)
    if event.read.ignored:
        return Note(event.id, said, Outcome.IGNORED, event.read.ignored)
    if event.read.fetch:
        return Note(event.id, said, Outcome.FETCHING, fetch=event.read.fetch[:200])
    return None
