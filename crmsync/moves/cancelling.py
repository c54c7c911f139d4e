"""Take the waiting rows of a cancelled mass update out of the outbox, and give back what they had taken over.

A row that absorbed an older change carries that change, too. It is not for this batch to cancel: it waits again, as a
newer version, as if the row had never come.
"""

from collections.abc import Sequence

from django.db import connection, transaction
from django.db.models.functions import Now

from crmsync.models import Batch, OutboxMessage
from crmsync.moves.settle import lock_records

PART = 1_000

# Of two that one row absorbed (one that waited, one that failed and came back), the older goes into the newer again.
GIVE_BACK = """
WITH absorbed AS MATERIALIZED (
    SELECT m.id, m.record_id, m.operation, m.afterwards, m.fields, m.parents,
           row_number() OVER (PARTITION BY m.record_id ORDER BY m.version DESC) AS nth
      FROM crmsync_outboxmessage AS m WHERE m.superseded_by_id = ANY (%(ids)s) AND m.status = 'superseded'
), drawn AS (
    UPDATE crmsync_crmrecord AS r SET version = r.version + 1
      FROM absorbed AS a WHERE a.record_id = r.id AND a.nth = 1
    RETURNING r.id, r.version
), older AS (
    UPDATE crmsync_outboxmessage AS m SET superseded_by_id = n.id
      FROM absorbed AS o JOIN absorbed AS n ON n.record_id = o.record_id AND n.nth = 1
     WHERE m.id = o.id AND o.nth > 1
)
UPDATE crmsync_outboxmessage AS m
   SET status = 'pending', superseded_by_id = NULL, settled_at = NULL, due_at = clock_timestamp(),
       pile = NULL, version = drawn.version,
       operation = outbox_merge_operation(coalesce(o.operation, n.operation), n.operation),
       afterwards = outbox_merge_afterwards(o.operation, o.afterwards, n.operation, n.afterwards),
       fields = outbox_merge_fields(coalesce(o.fields, '{}'), n.operation, n.fields),
       parents = CASE WHEN n.operation = 'delete' THEN n.parents
                      ELSE outbox_merge_parents(coalesce(o.parents, '[]'), n.parents) END
  FROM absorbed AS n JOIN drawn ON drawn.id = n.record_id
       LEFT JOIN absorbed AS o ON o.record_id = n.record_id AND o.nth = 2
 WHERE m.id = n.id AND n.nth = 1
RETURNING m.id
"""


def cancel_next(*, batch_id: int, by: str, reason: str) -> int:
    """Cancel up to a thousand waiting rows of the batch; 0: none waits. Opens a transaction."""
    with transaction.atomic(durable=True):
        waiting = OutboxMessage.objects.pending().filter(batch_id=batch_id)
        wanted = dict(waiting.order_by("line").values_list("pk", "record_id")[:PART])
        lock_records(wanted.values())
        # Proves: still waiting until we commit. Costs: a claimer skips them meanwhile; we wait for one that was faster,
        # then find the row claimed and leave it alone.
        mine = list(
            waiting.filter(pk__in=list(wanted))
            .order_by("pk")
            .select_for_update(no_key=True)
            .values_list("pk", flat=True)
        )
        gone = take_out(mine, by=by, reason=reason)
        with connection.cursor() as cursor:
            cursor.execute(GIVE_BACK, {"ids": gone})
    return len(mine)


def take_out(message_ids: Sequence[int], *, by: str, reason: str) -> list[int]:
    """Cancel these, and what they had absorbed of other cancelled batches. All of their ids.

    Call inside a transaction that has locked their records.
    """
    gone: list[int] = []
    ids = list(message_ids)
    while ids:
        OutboxMessage.objects.filter(pk__in=ids).update(
            status=OutboxMessage.Status.CANCELLED,
            settled_at=Now(),
            superseded_by=None,
            requested_by=by,
            reason=reason,
        )
        gone += ids
        absorbed = OutboxMessage.objects.filter(superseded_by__in=ids, status=OutboxMessage.Status.SUPERSEDED)
        ids = list(absorbed.filter(batch__status=Batch.Status.CANCELLED).values_list("pk", flat=True))
    return gone
