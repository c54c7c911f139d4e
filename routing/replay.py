"""Let stored events go through once more, after the mapping, the rules of a source or its token were put right.

Nothing doubles: an event that has its lead is left as it is, and of one that has none at most one lead is made, whoever
replays it and however often.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import DatabaseError, transaction

from crmsync.nudge import ask
from routing import fetches
from routing.arrivals import in_words
from routing.errors import Busy, InvalidLead
from routing.intake import land
from routing.kinds import KINDS
from routing.kinds.kind import Kind, Read
from routing.mapping import map_fields
from routing.models import InboundEvent

logger = logging.getLogger(__name__)


@dataclass
class Replayed:
    """Events that made or touched a lead now, that are being fetched again, that are refused as before, that bring no
    lead, that had theirs already, and that were busy.
    """

    landed: int = 0
    fetching: int = 0
    refused: int = 0
    ignored: int = 0
    had_a_lead: int = 0
    busy: int = 0


def replay(*, event_ids: Sequence[int]) -> Replayed:
    """Replay these events, oldest first, each in a transaction of its own."""
    done = Replayed()
    found = InboundEvent.objects.filter(pk__in=event_ids).select_related("source", "fetch").order_by("pk")
    for event in found:
        _replay(event, done)
    if done.fetching:
        ask("routing.tasks.fetch")
    return done


def _replay(event: InboundEvent, done: Replayed) -> None:
    kind = KINDS.get(event.source.kind)
    if event.lead_id is not None:
        done.had_a_lead += 1
        return
    read = read_again(event, kind) if kind else None
    if kind is None or read is None:
        done.refused += 1
    elif read.ignored:
        done.ignored += 1
    elif read.fetch:
        with transaction.atomic(durable=True):
            done.fetching += fetches.ask_again(event_ids=[event.pk])
    else:
        payload = map_fields(read.fields, usual=kind.usual, mapping=event.source.mapping).payload
        try:
            landed = land(source=event.source, event=event.pk, payload=payload)
        except InvalidLead as refusal:
            with transaction.atomic(durable=True):
                fetches.refused(event=event.pk, because=in_words(refusal))
            done.refused += 1
        except (Busy, DatabaseError) as fault:
            logger.warning("replay failed event=%s fault=%s", event.pk, type(fault.__cause__ or fault).__name__)
            done.busy += 1
        else:
            done.had_a_lead += landed.outcome == "replayed"
            done.landed += landed.outcome != "replayed"


def read_again(event: InboundEvent, kind: Kind) -> Read | None:
    """What a stored event says of a lead by the sender's names: what was fetched, where it was; None: unreadable."""
    fetch = getattr(event, "fetch", None)
    if fetch is not None and fetch.answer is not None:
        return Read(fields=fetch.answer)
    if not event.payload:
        return None
    try:
        return kind.read(event.payload)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None
