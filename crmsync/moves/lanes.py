"""Free the lanes of a claim that ends, each with what has been learned about it; and prune those nobody needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from crmsync.backoff import MOST_HALVINGS

# A lane that failed waits, halves the chunks that use it, or both; one that did not is trusted a little more again.
FREE = """
WITH brake AS (
    SELECT key, max(wait_ms) AS wait_ms, max(halvings) AS halvings, max(quarantine_ms) AS quarantine_ms
      FROM unnest(%(keys)s::text[], %(waits)s::int[], %(halvings)s::int[], %(quarantines)s::int[])
           AS u(key, wait_ms, halvings, quarantine_ms)
     GROUP BY key
)
UPDATE crmsync_lane AS l
   SET claim_id = NULL,
       not_before = clock_timestamp() + coalesce(b.wait_ms, 0) * interval '1 millisecond',
       quarantined_until = CASE WHEN b.quarantine_ms > 0
                                THEN clock_timestamp() + b.quarantine_ms * interval '1 millisecond' END,
       failures = CASE WHEN b.halvings > 0 THEN least(greatest(l.failures + 1, b.halvings), %(most)s)
                       WHEN b.key IS NULL AND %(clean)s THEN greatest(l.failures - 1, 0)
                       ELSE l.failures END
  FROM crmsync_lane AS mine LEFT JOIN brake AS b ON b.key = mine.key
 WHERE l.key = mine.key AND mine.claim_id = %(token)s
"""
PRUNE = """
DELETE FROM crmsync_lane WHERE key = ANY (ARRAY(
    SELECT key FROM crmsync_lane
     WHERE claim_id IS NULL AND not_before < clock_timestamp() - %(idle_s)s * interval '1 second'
       AND (quarantined_until IS NULL OR quarantined_until < clock_timestamp())
     ORDER BY not_before LIMIT %(most)s FOR UPDATE SKIP LOCKED))
"""


@dataclass(frozen=True, slots=True)
class Brake:
    key: str
    wait_ms: int = 0
    halvings: int = 0  # at least so often is the largest chunk halved from now on
    quarantine_ms: int = 0


def free_lanes(*, token: UUID, brakes: Sequence[Brake] = (), clean: bool = True) -> None:
    """Free the claim's lanes. `clean`: those without a brake have just carried rows. Call inside a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            FREE,
            {
                "token": token,
                "keys": [brake.key for brake in brakes],
                "waits": [brake.wait_ms for brake in brakes],
                "halvings": [brake.halvings for brake in brakes],
                "quarantines": [brake.quarantine_ms for brake in brakes],
                "most": MOST_HALVINGS,
                "clean": clean,
            },
        )


def prune_lanes(*, idle_s: float, most: int) -> int:
    """Delete lanes that nobody has used for a while. Skips what others hold; a lane wanted again is inserted again."""
    with connection.cursor() as cursor:
        cursor.execute(PRUNE, {"idle_s": idle_s, "most": most})
        return cursor.rowcount
