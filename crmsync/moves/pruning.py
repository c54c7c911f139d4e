"""Delete messages that settled long ago, with their attempts and the claims these leave without any; and empty piles.

A message stays while anything may ask for it: the newest of its record, one that a dead message of the record may have
to be compared with, one that another went into, one of a mass update whose verdicts are still kept. Dead letters stay:
they are somebody's work.
"""

from django.db import connection, transaction

from crmsync.models import Pruning
from crmsync.moves.piles import LEAVE, take_turn

# Looks at the next messages in the order in which they were written; what went into a newer one is older than it.
PRUNE = """
WITH seen AS MATERIALIZED (
    SELECT id FROM crmsync_outboxmessage WHERE id > %(after)s ORDER BY id LIMIT %(most)s
), old AS MATERIALIZED (
    SELECT m.id FROM crmsync_outboxmessage AS m JOIN crmsync_crmrecord AS r ON r.id = m.record_id
      LEFT JOIN crmsync_batch AS b ON b.id = m.batch_id
     WHERE m.id IN (SELECT id FROM seen)
       AND m.status IN ('delivered', 'superseded', 'retried', 'cancelled')
       AND m.settled_at < clock_timestamp() - %(days)s * interval '1 day'
       AND m.version < r.version
       AND (m.batch_id IS NULL OR b.settled_at < clock_timestamp() - %(batch_days)s * interval '1 day')
       AND NOT EXISTS (SELECT FROM crmsync_outboxmessage AS d
                        WHERE d.record_id = m.record_id AND d.version < m.version AND d.status = 'dead')
       AND NOT EXISTS (SELECT FROM crmsync_outboxmessage AS s WHERE s.superseded_by_id = m.id)
       FOR UPDATE OF m SKIP LOCKED
), tries AS (
    DELETE FROM crmsync_attempt WHERE message_id IN (SELECT id FROM old) RETURNING claim_id
)
SELECT (SELECT max(id) FROM seen), (SELECT array_agg(id) FROM old), (SELECT array_agg(DISTINCT claim_id) FROM tries)
"""
MESSAGES = "DELETE FROM crmsync_outboxmessage WHERE id = ANY (%s)"
CLAIMS = """
DELETE FROM crmsync_claim AS c WHERE c.token = ANY (%s) AND c.ended_at IS NOT NULL
   AND NOT EXISTS (SELECT FROM crmsync_attempt AS a WHERE a.claim_id = c.token)
"""


def prune_next(*, days: int, batch_days: int, most: int) -> tuple[int, bool]:
    """Look at the next `most` messages: how many were deleted, and whether the end of the table was reached.

    Where it goes on is a row of its own; two at once take turns. Opens a transaction.
    """
    with transaction.atomic(durable=True):
        Pruning.objects.get_or_create(pk=1)
        place = Pruning.objects.select_for_update(no_key=True).get(pk=1)
        with connection.cursor() as cursor:
            cursor.execute(PRUNE, {"after": place.after, "most": most, "days": days, "batch_days": batch_days})
            last, messages, claims = cursor.fetchone()
            if messages:
                cursor.execute(MESSAGES, [messages])
            if claims:
                cursor.execute(CLAIMS, [claims])
        Pruning.objects.filter(pk=1).update(after=last or 0)
    return len(messages or ()), last is None


EMPTY_PILES = """
DELETE FROM crmsync_pile WHERE key = ANY (ARRAY(
    SELECT key FROM crmsync_pile
     WHERE waiting = 0 AND since_at < clock_timestamp() - %s * interval '1 second'
     ORDER BY since_at LIMIT %s))
RETURNING key
"""
CANCELLED_PILES = """
DELETE FROM crmsync_pile WHERE key = ANY (ARRAY(
    SELECT p.key FROM crmsync_batch AS b JOIN crmsync_pile AS p ON p.batch = b.id AND p.waiting > 0
     WHERE b.status = 'cancelled' LIMIT %s))
"""


def prune_empty_piles(*, idle_s: float, most: int) -> int:
    """Delete piles that have long been empty, and those of cancelled mass updates; none while others plan. A message in
    an empty one, if any, is planned anew."""
    with transaction.atomic(durable=True):
        if not take_turn():
            return 0
        with connection.cursor() as cursor:
            cursor.execute(EMPTY_PILES, [idle_s, most])
            pruned = [key for (key,) in cursor.fetchall()]
            cursor.execute(LEAVE, [pruned, []])
            cursor.execute(CANCELLED_PILES, [most])
            return len(pruned) + cursor.rowcount
