"""Add the lanes that are wanted, free those of a claim that ends, each with what has been learned about it, and prune
those that nobody needs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from crmsync.backoff import MORE, MOST_ROWS, UNTIL_MORE
from crmsync.models import Lane

ADD_LANES = """
INSERT INTO crmsync_lane (key) SELECT key FROM unnest(%s::text[]) AS u(key)
 WHERE NOT EXISTS (SELECT FROM crmsync_lane AS l WHERE l.key = u.key) ORDER BY key
ON CONFLICT DO NOTHING
"""
# A lane that failed waits, halves the chunks that use it, or both; one that did not is trusted a little more again.
FREE = """
WITH brake AS (
    SELECT key, max(wait_ms) AS wait_ms, max(halvings) AS halvings, max(quarantine_ms) AS quarantine_ms
      FROM unnest(%(keys)s::text[], %(waits)s::int[], %(halvings)s::int[], %(quarantines)s::int[])
           AS u(key, wait_ms, halvings, quarantine_ms)
     GROUP BY key
), learned AS (
    SELECT l.key, b.wait_ms, b.quarantine_ms, coalesce(b.wait_ms, 0) > 0 AS locked,
           coalesce(b.wait_ms, 0) > 0 OR coalesce(b.halvings, 0) > 0 AS halved, coalesce(b.halvings, 0) AS halvings,
           b.key IS NULL AND %(clean)s AS clean
      FROM crmsync_lane AS l LEFT JOIN brake AS b ON b.key = l.key WHERE l.claim_id = %(token)s
)
UPDATE crmsync_lane AS l
   SET claim_id = NULL,
       not_before = greatest(clock_timestamp() + coalesce(n.wait_ms, 0) * interval '1 millisecond', l.held_until),
       quarantined_until = CASE WHEN n.quarantine_ms > 0
                                THEN clock_timestamp() + n.quarantine_ms * interval '1 millisecond' END,
       failures = CASE WHEN n.locked THEN least(l.failures + 1, 1000) WHEN n.clean THEN 0 ELSE l.failures END,
       most_rows = CASE WHEN n.halved THEN greatest(1, least(l.most_rows / 2, %(most)s >> n.halvings))
                        WHEN n.clean AND l.clean_run + 1 >= %(until_more)s
                        THEN least(%(most)s, ceil(l.most_rows * %(more)s))
                        ELSE l.most_rows END,
       clean_run = CASE WHEN n.clean AND l.clean_run + 1 < %(until_more)s THEN l.clean_run + 1
                    WHEN n.clean OR n.halved THEN 0 ELSE l.clean_run END
  FROM learned AS n WHERE l.key = n.key
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


def add_lanes(keys: Sequence[str]) -> None:
    """Insert the missing lanes, sorted, in one statement, so that nobody can wait in a circle.

    Outside a transaction a second worker that inserts the same key waits for this statement only; inside one, until it
    ends.
    """
    with connection.cursor() as cursor:
        cursor.execute(ADD_LANES, [list(keys)])


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
                "most": MOST_ROWS,
                "more": MORE,
                "until_more": UNTIL_MORE,
                "clean": clean,
            },
        )


def free_lanes_but(*, token: UUID, keep: Collection[str]) -> None:
    """Free those of the claim's lanes that nothing it goes on with needs. Call inside a transaction."""
    Lane.objects.filter(claim=token).exclude(key__in=list(keep)).update(claim=None)


def prune_lanes(*, idle_s: float, most: int) -> int:
    """Delete lanes that nobody has used for a while. Skips what others hold; a lane wanted again is inserted again."""
    with connection.cursor() as cursor:
        cursor.execute(PRUNE, {"idle_s": idle_s, "most": most})
        return cursor.rowcount
