"""What a worker asks before it looks closer: may anything be sent, and does anything wait that goes before the piles.

One statement, for it is asked before every chunk. It may see more than can be sent, and never less: whoever looks
closer finds out.
"""

from dataclasses import dataclass

from django.db import connection

from crmsync.moves.reserve import PATIENCE_MS

# In the order of an index each, so that one entry of it is read, whatever the statistics say; EXISTS would drop the
# order.
WAITING = """
SELECT coalesce((SELECT paused_until <= clock_timestamp() FROM crmsync_orgstate WHERE id = 1), true),
       coalesce((SELECT mass_paused_until <= clock_timestamp() FROM crmsync_orgstate WHERE id = 1), true),
       (SELECT id FROM crmsync_outboxmessage
         WHERE status = 'pending' AND passed_at <= clock_timestamp() - %s * interval '1 millisecond'
         ORDER BY passed_at, id LIMIT 1) IS NOT NULL,
       (SELECT id FROM crmsync_outboxmessage
         WHERE status = 'pending' AND priority = 0 AND due_at <= clock_timestamp()
         ORDER BY priority, due_at, id LIMIT 1) IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """`sends`: the org is not paused. `mass`: nor are its mass updates. `passed`: some message has been passed over for
    too long. `urgent`: some message that a person waits for is due.
    """

    sends: bool
    mass: bool
    passed: bool
    urgent: bool


def what_waits() -> Waiting:
    with connection.cursor() as cursor:
        cursor.execute(WAITING, [PATIENCE_MS])
        return Waiting(*cursor.fetchone())
