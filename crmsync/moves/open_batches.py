"""Which mass updates may go on, found without reading a row of those that may not.

A pause is one row. However many rows wait behind it, whoever looks for mass messages looks mass update by mass update,
and leaves out what is paused or cancelled.
"""

from datetime import datetime

from django.db import connection

from crmsync.models import Pile

UNPLANNED = "crmsync_outboxmessage WHERE status = 'pending' AND pile IS NULL AND priority = 1"
# From one mass update that has any of these rows to the next, one row each; NULL ends it.
OPEN = """
WITH RECURSIVE found(id) AS (
    SELECT (SELECT min({batch}) FROM {rows})
    UNION ALL
    SELECT (SELECT min({batch}) FROM {rows} AND {batch} > f.id) FROM found AS f WHERE f.id IS NOT NULL
)
SELECT b.id FROM found JOIN crmsync_batch AS b ON b.id = found.id
 WHERE b.paused_at IS NULL AND b.status <> 'cancelled' ORDER BY b.id
"""
OPEN_UNPLANNED = OPEN.format(batch="batch_id", rows=UNPLANNED)
# `batch_id` in the order is what lets rows of no mass update be read by the index.
ANY_UNPLANNED = f"""
(SELECT batch_id FROM {UNPLANNED} AND batch_id IS NULL ORDER BY batch_id, id LIMIT 1) UNION ALL ({OPEN_UNPLANNED})
"""
OPEN_PILED = OPEN.format(batch="batch", rows="crmsync_pile WHERE waiting > 0")


def with_unplanned() -> list[int | None]:
    """Open mass updates with messages that are in no pile yet; None where there are such of no mass update, first."""
    with connection.cursor() as cursor:
        cursor.execute(ANY_UNPLANNED)
        return [batch_id for (batch_id,) in cursor.fetchall()]


def with_piles() -> list[int]:
    """Open mass updates with piles, as these name them."""
    return [Pile.OF_NONE, *ids(OPEN_PILED)]


def ids(statement: str) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return [batch_id for (batch_id,) in cursor.fetchall()]


RIPE = f"{UNPLANNED} AND due_at <= clock_timestamp()"
OLDEST = f"""
SELECT least(
    (SELECT due_at FROM {RIPE} AND batch_id IS NULL ORDER BY batch_id, id LIMIT 1),
    (SELECT min((SELECT due_at FROM {RIPE} AND batch_id = o.id ORDER BY id LIMIT 1))
       FROM unnest(%s::bigint[]) AS o(id)),
    (SELECT min((SELECT since_at FROM crmsync_pile WHERE batch = o.id AND waiting > 0 ORDER BY since_at LIMIT 1))
       FROM unnest(%s::bigint[]) AS o(id)))
"""


def waiting_since() -> datetime | None:
    """Since when the mass message that waits longest has been due, or its pile been left alone; None: none waits."""
    with connection.cursor() as cursor:
        cursor.execute(OLDEST, [ids(OPEN_UNPLANNED), with_piles()])
        found: datetime | None = cursor.fetchone()[0]
    return found
