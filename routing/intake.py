"""Take in what a sender reports: one transaction for delivery, event and lead; then the lead's turn.

Two commits on purpose. The lead is committed as waiting first, so that a fault in its turn cannot
lose it; and the team's turnstile is never held while this program talks to the database.
"""

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg.errors
from django.db import DatabaseError, transaction

from crmsync.nudge import ask, nudge
from routing.errors import Busy, EventConflict, TurnFault
from routing.events import Recorded, lock_unlanded, record
from routing.leads import Entered, as_it_stands, enter
from routing.models import Delivery, InboundEvent, InboundSource
from routing.normalise import clean_lead
from routing.placing import place
from routing.turns import Turn, take_turns

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Accepted:
    """What became of an event: `outcome` is assigned, waiting, touched or replayed; no rep while the lead waits."""

    outcome: str
    lead: uuid.UUID
    rep_id: int | None
    rep_name: str | None


def accept(
    *,
    source: InboundSource,
    event_id: str,
    body: bytes,
    payload: dict[str, Any],
    request_id: str,
    said: dict[str, Any] | None = None,
    strict: bool = True,
) -> Accepted:
    """Take in one event of a source and, where it brings a new lead, take its turn.

    `payload` is the lead in our names, `said` the event in the sender's, if that is something else. Raises InvalidLead;
    EventConflict if the id was delivered before with another body (both are kept; see `record` for `strict`); Busy if
    the same event or address is in another transaction for longer than lock_timeout.
    """
    lead = clean_lead(payload)
    placing = place(lead=lead, source=source)
    with waiting_no_longer(), transaction.atomic(durable=True):
        recorded = record(
            source_id=source.pk,
            event_id=event_id,
            body=body,
            payload=payload if said is None else said,
            request_id=request_id,
            strict=strict,
        )
        if recorded.verdict == Delivery.Verdict.ACCEPTED:
            entered = enter(lead=lead, event=recorded.event, placing=placing)
        else:
            entered = _known(recorded)
    if recorded.verdict == Delivery.Verdict.CONFLICTING:
        raise EventConflict
    return _accepted(entered, replayed=recorded.verdict == Delivery.Verdict.REPLAYED)


def land(*, source: InboundSource, event: int, payload: dict[str, Any]) -> Accepted:
    """Make of an event that is stored already, and has no lead yet, what `accept` makes of a new one.

    `event` is its key. Of an event that has its lead nothing is changed: it is answered as replayed. Raises InvalidLead
    or Busy.
    """
    lead = clean_lead(payload)
    placing = place(lead=lead, source=source)
    with waiting_no_longer(), transaction.atomic(durable=True):
        stored = lock_unlanded(event=event)
        if stored is None:
            entered = as_it_stands(lead_id=InboundEvent.objects.values_list("lead_id", flat=True).get(pk=event))
        else:
            InboundEvent.objects.filter(pk=event).update(outcome="", because="")
            entered = enter(lead=lead, event=event, placing=placing)
    return _accepted(entered, replayed=stored is None)


@contextmanager
def waiting_no_longer() -> Iterator[None]:
    """Raise Busy for a lock that did not come within lock_timeout."""
    try:
        yield
    except DatabaseError as fault:
        if isinstance(fault.__cause__, psycopg.errors.LockNotAvailable):
            raise Busy from fault
        raise


def _accepted(entered: Entered, *, replayed: bool) -> Accepted:
    if replayed or not entered.new:
        return Accepted("replayed" if replayed else "touched", entered.uid, entered.rep_id, entered.rep_name)
    turn = take_turn_of_new(team_id=entered.team_id, lead_id=entered.lead)
    return Accepted("assigned" if turn.rep_id else "waiting", entered.uid, turn.rep_id, turn.rep_name)


def take_turn_of_new(*, team_id: int, lead_id: int) -> Turn:
    """Take a committed lead's turn. Whatever goes wrong, the lead waits and a sweep of its team is asked for."""
    try:
        turn = take_turns(team_id=team_id, lead_id=lead_id)
    except (DatabaseError, TurnFault) as fault:
        logger.warning(
            "turn failed team=%s lead=%s fault=%s", team_id, lead_id, type(fault.__cause__ or fault).__name__
        )
        turn = Turn("busy", None, None, None, 0, True)
    if turn.taken:
        nudge("crm")
    if turn.more:
        ask("routing.tasks.sweep_team", team_id)
    return turn


def _known(recorded: Recorded) -> Entered:
    if recorded.lead is None:
        raise AssertionError("An event is committed together with its lead.")
    return as_it_stands(lead_id=recorded.lead)
