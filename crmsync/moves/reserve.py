"""Keep lanes for a message that others have been passing over: the oldest first, until it has all it needs.

A message that needs several lanes would otherwise wait for the moment in which all of them happen to be free, and that
may never come while there is work for each. Whoever holds a lane keeps it; nobody takes it anew.
"""

from collections.abc import Sequence

from django.db import connection

from crmsync.chunks import Candidate
from crmsync.moves.lanes import add_lanes

PATIENCE_MS = 2_000
RESERVED_MS = 5_000  # every look of any worker renews it; it ends by itself if the message is gone
MOST_GROUPS = 20

RESERVE = """
WITH wanted AS MATERIALIZED (
    SELECT key FROM crmsync_lane
     WHERE key = ANY (%(keys)s) AND (reserved_until IS NULL OR reserved_until <= clock_timestamp()
           OR reserved_for = %(id)s OR (reserved_since, reserved_for) > (%(since)s, %(id)s))
     ORDER BY key FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE crmsync_lane AS l
   SET reserved_for = %(id)s, reserved_since = %(since)s,
       reserved_until = clock_timestamp() + %(ms)s * interval '1 millisecond'
  FROM wanted WHERE l.key = wanted.key
"""


def reserve(passed: Sequence[Candidate]) -> None:
    """Reserve what these need, as far as nobody older has; they come sorted by age. Call outside a transaction."""
    leaders: dict[object, Candidate] = {}
    for candidate in passed:
        leaders.setdefault(candidate.together, candidate)
    chosen = list(leaders.values())[:MOST_GROUPS]
    add_lanes(sorted({key for candidate in chosen for key in candidate.keys}))
    for candidate in chosen:
        with connection.cursor() as cursor:
            cursor.execute(
                RESERVE,
                {
                    "keys": sorted(candidate.keys),
                    "id": candidate.message_id,
                    "since": candidate.passed_at,
                    "ms": RESERVED_MS,
                },
            )
