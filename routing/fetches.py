"""Who may fetch an event's lead, and what came of it. Each function is a move on the rows of Fetch.

A claim is `due_at` moved to the end of a lease, and a token: a worker that dies costs one lease, and one that comes
late settles nothing, for its token is gone.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import F

from routing.models import Fetch, InboundEvent

Outcome = InboundEvent.Outcome


@dataclass(frozen=True)
class Held:
    """What one worker may fetch: the claim's token, and the events' keys, the longest due first."""

    claim: uuid.UUID
    events: tuple[int, ...]


def claim_due(*, most: int, lease_s: float) -> Held:
    """Claim up to `most` due fetches, for `lease_s` seconds. Call inside a transaction.

    skip_locked: whoever else claims at this moment takes others. One statement, MATERIALIZED, so that the lock is taken
    once and for no more than `most`.
    """
    claim = uuid.uuid4()
    with connection.cursor() as cursor:
        cursor.execute(CLAIM, {"most": most, "lease": lease_s, "claim": claim})
        rows = cursor.fetchall()
    return Held(claim, tuple(event for _, event in sorted(rows)))


def answered(*, event: int, claim: uuid.UUID, answer: Any) -> bool:
    """Keep what the API answered. False where the claim is not ours any more. Call inside a transaction."""
    held = Fetch.objects.filter(event_id=event, claim=claim)
    return bool(held.update(answer=answer, due_at=None, claim=None, trouble="", said="", attempts=F("attempts") + 1))


def put_back(*, event: int, claim: uuid.UUID, wait_s: float, trouble: str, said: str, charged: bool) -> bool:
    """Ask again in `wait_s` seconds; `charged` counts as an attempt. False where the claim is not ours any more. Call
    inside a transaction.
    """
    values: dict[str, Any] = {
        "event": event,
        "claim": claim,
        "wait": wait_s,
        "trouble": trouble,
        "said": said,
        "charged": int(charged),
    }
    with connection.cursor() as cursor:
        cursor.execute(PUT_BACK, values)
        return bool(cursor.rowcount)


def give_up(*, event: int, claim: uuid.UUID, trouble: str, said: str) -> bool:
    """Stop asking, until a person wants it again. False where the claim is not ours any more. Call inside a
    transaction.
    """
    held = Fetch.objects.filter(event_id=event, claim=claim)
    given_up = held.update(due_at=None, claim=None, trouble=trouble, said=said, attempts=F("attempts") + 1)
    if given_up:
        InboundEvent.objects.filter(pk=event, lead=None).update(outcome=Outcome.FAILED, because=said)
    return bool(given_up)


def refused(*, event: int, because: str) -> None:
    """Of what was stored or fetched no lead can be made: say why. Call inside a transaction."""
    InboundEvent.objects.filter(pk=event, lead=None).update(outcome=Outcome.REFUSED, because=because)


def ask_again(*, event_ids: Sequence[int]) -> int:
    """Make those of the events that wait for an answer of the API due now, with all their attempts; return how many.

    Call inside a transaction.
    """
    unanswered = Fetch.objects.filter(event_id__in=event_ids, answer__isnull=True, event__lead=None)
    ids = list(unanswered.order_by("pk").values_list("pk", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(ASK_AGAIN, {"ids": ids})
        (again,) = cursor.fetchone()
    return int(again)


def ask_again_with_new_token(*, source_id: int) -> int:
    """The source's token is a new one: ask again for what the old one was refused. Call inside a transaction."""
    stuck = Fetch.objects.filter(event__source_id=source_id, trouble=Fetch.Trouble.TOKEN, answer__isnull=True)
    return ask_again(event_ids=list(stuck.values_list("pk", flat=True)))


CLAIM = """
    WITH due AS MATERIALIZED (
        SELECT event_id, due_at FROM routing_fetch
         WHERE due_at <= clock_timestamp()
         ORDER BY due_at, event_id LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE routing_fetch SET claim = %(claim)s, due_at = clock_timestamp() + make_interval(secs => %(lease)s)
      FROM due WHERE due.event_id = routing_fetch.event_id
    RETURNING due.due_at, routing_fetch.event_id
"""
PUT_BACK = """
    UPDATE routing_fetch
       SET claim = NULL, due_at = clock_timestamp() + make_interval(secs => %(wait)s), trouble = %(trouble)s,
           said = %(said)s, attempts = attempts + %(charged)s
     WHERE event_id = %(event)s AND claim = %(claim)s
"""
ASK_AGAIN = """
    WITH again AS (
        UPDATE routing_fetch SET due_at = clock_timestamp(), claim = NULL, attempts = 0
         WHERE event_id = ANY (%(ids)s::bigint[]) AND answer IS NULL RETURNING event_id),
    told AS (
        UPDATE routing_inboundevent SET outcome = 'fetching', because = ''
          FROM again WHERE id = again.event_id AND lead_id IS NULL)
    SELECT count(*) FROM again
"""
