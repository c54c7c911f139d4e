"""Take a batch of due messages for one worker, keep it, give back what is left of it.

Claims are disjoint by construction: a message is due or it belongs to one claim. A claim says who may try; whether a
mail may leave is decided again at the gate, for each one.
"""

import uuid
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from outreach.mail.storable import storable
from outreach.models import Claim
from outreach.moves.events import Kind, Layer, tell


@dataclass(frozen=True)
class Held:
    """What a worker holds: its claim's token, and the ids of the messages, the longest due first."""

    claim: int
    token: uuid.UUID
    campaign: int
    worker: str
    messages: tuple[int, ...]


def claim_batch(*, campaign_id: int, worker: str, size: int, lease_s: float) -> Held | None:
    """Claim up to `size` due messages of a running campaign for `lease_s` seconds; None where there are none.

    Opens a transaction. One statement; the CTE is MATERIALIZED, or the planner may run the locking query again and
    again and claim far more than the limit (measured: 300 for 5). The lock proves that nobody else claims these rows;
    whoever loses skips them and takes the next. A message whose claim expired before is claimed alone, so that one that
    kills its workers takes no others down with it.
    """
    token = uuid.uuid4()
    values: dict[str, Any] = {"campaign": campaign_id, "worker": worker, "size": size, "lease": lease_s, "token": token}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(CLAIM, values)
        claim, messages = cursor.fetchone()
    if not messages:
        return None
    return Held(claim, token, campaign_id, worker, tuple(messages))


def renew(*, token: uuid.UUID, lease_s: float) -> bool:
    """Extend a claim that is still ours by the database's clock; False where it is not: stop. Opens a transaction."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(RENEW, {"token": token, "lease": lease_s})
        renewed = cursor.rowcount == 1
        if not renewed:
            claim = Claim.objects.filter(token=token).first()
            if claim is not None:
                tell(
                    kind=Kind.TURNED_AWAY,
                    layer=Layer.CLAIM,
                    worker=claim.worker,
                    claim=claim.pk,
                    reason="renewed too late",
                )
    return renewed


def end_claim(*, token: uuid.UUID, reason: str = "") -> int:
    """End a claim and make due again what it still holds unbegun; return how many that were. Opens a transaction.

    A claim that is not ours any more is left alone. One that still has a begun message is left to the reaper, which
    alone puts messages in doubt.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        # The lock proves that neither the reaper nor a gate is at work on this claim; they hold it for milliseconds.
        claim = Claim.objects.select_for_update(no_key=True).filter(token=token, ended_at=None).first()
        if claim is None:
            return 0
        cursor.execute(GIVE_BACK, {"claim": claim.pk, "worker": claim.worker, "reason": storable(reason[:200])})
        (given_back,) = cursor.fetchone()
        end = Claim.EndReason.RELEASED if given_back else Claim.EndReason.DONE
        cursor.execute(END, {"claim": claim.pk, "end": end.value})
    return int(given_back)


CLAIM = """
    WITH taken AS MATERIALIZED (
        SELECT id, due_at, expiries FROM outreach_message
         WHERE campaign_id = %(campaign)s AND status = 'due' AND due_at <= statement_timestamp()
           AND EXISTS (SELECT FROM outreach_campaign WHERE id = %(campaign)s AND status = 'running')
         ORDER BY due_at, id LIMIT %(size)s FOR NO KEY UPDATE SKIP LOCKED),
    counted AS (
        SELECT id, due_at, row_number() OVER head AS place, count(*) FILTER (WHERE expiries > 0) OVER head AS marked
          FROM taken WINDOW head AS (ORDER BY due_at, id)),
    kept AS MATERIALIZED (SELECT id, due_at FROM counted WHERE marked = 0 OR place = 1),
    made AS (
        INSERT INTO outreach_claim (token, campaign_id, worker, size, claimed_at, heartbeat_at, lease_until)
        SELECT %(token)s, %(campaign)s, %(worker)s, kept.n, t, t, t + make_interval(secs => %(lease)s)
          FROM clock_timestamp() AS t, (SELECT count(*) AS n FROM kept) AS kept WHERE kept.n > 0
        RETURNING id),
    held AS (
        UPDATE outreach_message SET status = 'claimed', claim_id = made.id FROM made, kept
         WHERE outreach_message.id = kept.id AND status = 'due'
        RETURNING outreach_message.id, claim_id, kept.due_at),
    told AS (
        INSERT INTO outreach_outreachevent (kind, layer, worker, message_id, claim_id, before, after)
        SELECT 'claimed', 'claim', %(worker)s, id, claim_id, 'due', 'claimed' FROM held)
    SELECT max(claim_id), array_agg(id ORDER BY due_at, id) FROM held
"""

RENEW = """
    UPDATE outreach_claim
       SET heartbeat_at = clock_timestamp(), lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
     WHERE token = %(token)s AND ended_at IS NULL AND lease_until > clock_timestamp()
"""

GIVE_BACK = """
    WITH back AS (
        UPDATE outreach_message SET status = 'due', claim_id = NULL WHERE claim_id = %(claim)s AND status = 'claimed'
        RETURNING id),
    told AS (
        INSERT INTO outreach_outreachevent (kind, layer, worker, message_id, claim_id, before, after, reason)
        SELECT 'released', 'claim', %(worker)s, id, %(claim)s, 'claimed', 'due', %(reason)s FROM back)
    SELECT count(*) FROM back
"""

END = """
    UPDATE outreach_claim SET ended_at = clock_timestamp(), end_reason = %(end)s
     WHERE id = %(claim)s AND ended_at IS NULL
       AND NOT EXISTS (SELECT FROM outreach_message WHERE claim_id = %(claim)s AND status = 'begun')
"""
