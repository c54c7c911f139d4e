"""Take back what the dead have left. Naively one would make everything due again, and mail people twice.

A claim expires by the database's clock. What its worker had not begun is due again; what it had begun is in doubt, for
it may have gone out, and no machine makes it due. A worker that was only slow finds its claim gone at the gate; if its
mail was already on the way, its report comes late and settles what is in doubt.
"""

from dataclasses import dataclass

from django.db import connection, transaction

from outreach.models import Claim

EXPIRIES_MOST = 3
"""A message on whose claims so many workers died is set aside for a person: it may be what kills them."""


@dataclass(frozen=True)
class Reaped:
    """Claims that expired, and what became of their messages."""

    claims: int = 0
    due: int = 0
    in_doubt: int = 0
    failed: int = 0


def reap(*, most: int = 100) -> Reaped:
    """End up to `most` expired claims. Opens a transaction; two at once are harmless.

    The lock proves that the claim has not been renewed, and that no gate for it is open; the condition is checked again
    on the locked row. Whoever loses skips it. A message that a settlement holds is skipped too, and its claim left for
    the next time: a worker stopped within its settlement must not hold up the reaping of the others.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        expired = Claim.objects.expired().order_by("lease_until").select_for_update(skip_locked=True, no_key=True)
        claims = list(expired.values_list("pk", flat=True)[:most])
        if not claims:
            return Reaped()
        cursor.execute(REAP, {"claims": claims, "most": EXPIRIES_MOST})
        due, in_doubt, failed, ended = cursor.fetchone()
    return Reaped(ended, due, in_doubt, failed)


REAP = """
    WITH held AS MATERIALIZED (
        SELECT message.id, message.status, message.enrolment_id, claim.id AS claim_id, claim.worker,
               CASE WHEN message.status = 'begun' THEN 'in_doubt'
                    WHEN message.expiries + 1 >= %(most)s THEN 'failed' ELSE 'due' END AS after
          FROM outreach_message message JOIN outreach_claim claim ON claim.id = message.claim_id
         WHERE message.claim_id = ANY (%(claims)s) AND message.status IN ('claimed', 'begun')
         ORDER BY message.id FOR NO KEY UPDATE OF message SKIP LOCKED),
    freed AS (
        UPDATE outreach_message
           SET status = held.after, claim_id = NULL,
               expiries = expiries + CASE held.after WHEN 'in_doubt' THEN 0 ELSE 1 END,
               reason = CASE held.after WHEN 'failed' THEN 'its workers died' ELSE '' END
          FROM held WHERE outreach_message.id = held.id),
    doubted AS (
        UPDATE outreach_sendattempt SET status = 'in_doubt' FROM held
         WHERE message_id = held.id AND held.after = 'in_doubt' AND outreach_sendattempt.status = 'begun'
        RETURNING outreach_sendattempt.id, message_id),
    ended AS (
        UPDATE outreach_enrolment SET ended_at = clock_timestamp(), end_reason = 'failed' FROM held
         WHERE outreach_enrolment.id = held.enrolment_id AND held.after = 'failed' AND ended_at IS NULL),
    over AS (
        UPDATE outreach_claim SET ended_at = clock_timestamp(), end_reason = 'expired'
         WHERE id = ANY (%(claims)s)
           AND NOT EXISTS (SELECT FROM outreach_message left_over
                            WHERE left_over.claim_id = outreach_claim.id AND left_over.status IN ('claimed', 'begun')
                              AND left_over.id NOT IN (SELECT id FROM held))
        RETURNING id),
    told AS (
        INSERT INTO outreach_outreachevent
            (kind, layer, worker, message_id, claim_id, attempt_id, before, after, reason)
        SELECT 'expired', 'reaper', worker, held.id, claim_id, doubted.id, held.status, after, 'the lease ran out'
          FROM held LEFT JOIN doubted ON doubted.message_id = held.id)
    SELECT count(*) FILTER (WHERE after = 'due'), count(*) FILTER (WHERE after = 'in_doubt'),
           count(*) FILTER (WHERE after = 'failed'), (SELECT count(*) FROM over)
      FROM held
"""
