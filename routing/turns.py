"""Give waiting leads to reps: the Python side of the one SQL function that does it.

`take_turns` is called in autocommit, so that the team's turnstile is held on the server only. A fault there cannot
lose a lead: it was committed as waiting before, and whoever takes the next turns, or the sweep, takes it too.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg.errors
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.transaction import TransactionManagementError

from routing.errors import TurnFault
from routing.models import Lead

logger = logging.getLogger(__name__)

TRIES = 3
"""How often a fault is tried again before the batch is taken singly."""
FAULTS = (
    psycopg.errors.DeadlockDetected,
    psycopg.IntegrityError,
    psycopg.DataError,
    psycopg.errors.RaiseException,
)
"""What one lead can bring upon a whole batch: a deadlock, a constraint, a value, a trigger that refuses it. Whatever
else fails (the connection, a timeout, the isolation level) is no lead's fault, and sets none aside.
"""


SET_ASIDE_MOST = 20
"""Leads set aside in one go at most: where every turn fails it is hardly the leads' fault, and a person should look."""


@dataclass(frozen=True)
class Turn:
    """What a call of take_turns came to.

    `outcome` is assigned, waiting, busy or retired for the lead asked about, done where none was. `taken` counts the
    turns taken, of whatever leads. `more` says that leads may be left.
    """

    outcome: str
    membership_id: int | None
    rep_id: int | None
    rep_name: str | None
    taken: int
    more: bool


def take_turns(
    *,
    team_id: int,
    lead_id: int | None = None,
    most: int | None = None,
    wait_ms: int | None = None,
    run_id: int | None = None,
) -> Turn:
    """Take the turns of a team's waiting leads, oldest first, and say what became of `lead_id`.

    `most` turns at most (default TURN_MOST), waiting `wait_ms` for the turnstile (default TURN_WAIT_MS). `run_id`
    notes them as those of a run, of which no lead is asked about. Where a
    counter shared with another team stays locked beyond lock_timeout the answer is busy. Raises TurnFault after three
    deadlocks or constraint faults, and TransactionManagementError inside a transaction.
    """
    if connection.in_atomic_block:
        raise TransactionManagementError("take_turns is called in autocommit: a transaction would hold the turnstile.")
    call = (team_id, lead_id, most or settings.TURN_MOST, wait_ms or settings.TURN_WAIT_MS, None)
    return _try_again(lambda: _call(call, run_id))


def take_turns_of(
    *, team_id: int, lead_ids: Sequence[int], wait_ms: int | None = None, run_id: int | None = None
) -> Turn:
    """Take the turns of these leads only, which the caller has claimed. Call inside a transaction, as its last
    statement.
    """
    if not connection.in_atomic_block:
        raise TransactionManagementError("take_turns_of belongs in the transaction that claimed the leads.")
    return _call((team_id, None, len(lead_ids), wait_ms or settings.TURN_WAIT_MS, list(lead_ids)), run_id)


@dataclass
class Singly:
    """Turns taken one by one, leads set aside because theirs failed, and whether it ended at a busy turnstile."""

    taken: int = 0
    set_aside: int = 0
    busy: bool = False


def take_singly(*, team_id: int, most: int, run_id: int | None = None) -> Singly:
    """Take the turns of up to `most` waiting leads one by one, and set aside each whose turn fails.

    For a team whose batch failed: one bad lead must not block the others, and must be seen.
    """
    singly = Singly()
    for lead_id in Lead.objects.waiting().filter(team_id=team_id).order_by("id").values_list("id", flat=True)[:most]:
        try:
            turn = _try_again(lambda lead_id=lead_id: _one(team_id, lead_id, run_id))  # type: ignore[misc]
        except TurnFault as fault:
            singly.set_aside += set_aside(lead_id=lead_id, because=str(fault.__cause__ or fault))
            if singly.set_aside == SET_ASIDE_MOST:
                break
            continue
        singly.taken += turn.taken
        if turn.outcome == "busy":
            singly.busy = True
            break
    return singly


def set_aside(*, lead_id: int, because: str) -> bool:
    """Take a waiting lead out of its team's turns until a person puts it back. False if it no longer waits."""
    because = because.strip() or "its turn failed without a word"
    logger.warning("lead set aside lead=%s because=%s", lead_id, because.partition("\n")[0])
    found = Lead.objects.waiting().filter(pk=lead_id)
    return bool(found.update(status=Lead.Status.SET_ASIDE, set_aside_because=because))


def put_back(*, lead_ids: Sequence[int]) -> int:
    """Let leads that were set aside wait again, as a person asked. Return how many; the others were not set aside."""
    found = Lead.objects.filter(pk__in=lead_ids, status=Lead.Status.SET_ASIDE)
    return found.update(status=Lead.Status.WAITING, set_aside_because="")


def _one(team_id: int, lead_id: int, run_id: int | None) -> Turn:
    with transaction.atomic(durable=True):
        return take_turns_of(team_id=team_id, lead_ids=[lead_id], wait_ms=1_000, run_id=run_id)


def _call(arguments: tuple[Any, ...], run_id: int | None = None) -> Turn:
    with connection.cursor() as cursor:
        if run_id is None:
            cursor.execute("SELECT * FROM take_turns(%s, %s, %s, %s, %s)", arguments)
        else:
            team_id, _, *others = arguments
            cursor.execute("SELECT * FROM take_turns_in_run(%s, %s, %s, %s, %s)", [run_id, team_id, *others])
        row = cursor.fetchone()
    return Turn(*row)


def _try_again(call: Callable[[], Turn]) -> Turn:
    for tried in range(1, TRIES + 1):
        try:
            return call()
        except DatabaseError as fault:
            if isinstance(fault.__cause__, psycopg.errors.LockNotAvailable):
                return Turn("busy", None, None, None, 0, True)
            if not isinstance(fault.__cause__, FAULTS):
                raise
            logger.warning("turn failed try=%s of=%s fault=%s", tried, TRIES, type(fault.__cause__).__name__)
            if tried == TRIES:
                raise TurnFault from fault
    raise AssertionError("unreachable")
