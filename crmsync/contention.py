"""Where in the CRM Rota met locks: by parent, by hour of the day and by object, and whether it met itself.

Read from the attempts, each of which says when it began and ended and what the org said. An attempt counts as met by
our own when another claim of ours was writing under the same parent at the same time. Lanes are to make that
impossible; a call that nobody answered any more is where it could still happen.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import connection

MOST_PARENTS = 20
ITSELF = "itself"
"""Stands for the parent of a record that names none: the record's own row was locked."""


@dataclass(frozen=True, slots=True)
class Parent:
    """A parent under which writes met a lock. `attempts` are all that were made under it, `failures` those that met
    one, `ours` those of them during which another claim of ours wrote under it."""

    object: str
    key: str
    attempts: int
    failures: int
    ours: int
    last_at: datetime

    @property
    def label(self) -> str:
        return f"{self.object} {self.key}"


@dataclass(frozen=True, slots=True)
class Counted:
    """Attempts and lock failures of one object."""

    object: str
    attempts: int
    failures: int


@dataclass(frozen=True)
class Contention:
    """`hours`: lock failures by hour of the day in UTC, 24 of them. `parents`: the worst first, MOST_PARENTS at most.
    `membership`: failures whose words tell of sharing or group changes."""

    since: datetime
    until: datetime
    attempts: int
    failures: int
    ours: int
    membership: int
    parents: tuple[Parent, ...]
    objects: tuple[Counted, ...]
    hours: tuple[int, ...]

    @property
    def foreign(self) -> int:
        return self.failures - self.ours

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "foreign": self.foreign,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "parents": [{**asdict(each), "last_at": each.last_at.isoformat()} for each in self.parents],
        }


def contention(*, since: datetime, until: datetime) -> Contention:
    """The attempts that began in [since, until). Reads an index by time; seconds for a million attempts."""
    values: dict[str, Any] = {"since": since, "until": until, "most": MOST_PARENTS, "itself": ITSELF}
    with connection.cursor() as cursor:
        cursor.execute(BY_OBJECT, values)
        objects = tuple(Counted(*row) for row in cursor.fetchall())
        cursor.execute(BY_HOUR, values)
        by_hour = dict(cursor.fetchall())
        cursor.execute(MEMBERSHIP, values)
        (membership,) = cursor.fetchone()
        cursor.execute(BY_PARENT, values)
        parents = tuple(Parent(*row) for row in cursor.fetchall())
        cursor.execute(OURS, values)
        (ours,) = cursor.fetchone()
    return Contention(
        since=since,
        until=until,
        attempts=sum(each.attempts for each in objects),
        failures=sum(each.failures for each in objects),
        ours=ours,
        membership=membership,
        parents=parents,
        objects=objects,
        hours=tuple(by_hour.get(hour, 0) for hour in range(24)),
    )


BY_OBJECT = """
    SELECT coalesce(nullif(r.written_as, ''), r.object), count(*), count(*) FILTER (WHERE a.outcome = 'contention')
      FROM crmsync_attempt a JOIN crmsync_outboxmessage m ON m.id = a.message_id
      JOIN crmsync_crmrecord r ON r.id = m.record_id
     WHERE a.begun_at >= %(since)s AND a.begun_at < %(until)s
     GROUP BY 1 ORDER BY 3 DESC, 1
"""
BY_HOUR = """
    SELECT extract(hour FROM a.begun_at AT TIME ZONE 'UTC')::int, count(*) FROM crmsync_attempt a
     WHERE a.begun_at >= %(since)s AND a.begun_at < %(until)s AND a.outcome = 'contention' GROUP BY 1
"""
MEMBERSHIP = """
    SELECT count(*) FROM crmsync_attempt a
     WHERE a.begun_at >= %(since)s AND a.begun_at < %(until)s AND a.outcome = 'contention'
       AND a.text ~* 'group membership|sharing'
"""
# Every attempt of the period once for each parent that it named, or whose contact its record is; a record that has none
# stands for itself.
UNDER = """
    WITH tried AS MATERIALIZED (
        SELECT a.id, a.claim_id, a.begun_at, coalesce(a.ended_at, clock_timestamp()) AS ended_at,
               a.outcome = 'contention' AS failed, coalesce(nullif(r.written_as, ''), r.object) AS object,
               CASE WHEN r.written_as = '' THEN m.parents ELSE outbox_merge_parents(r.parents, m.parents) END AS parents
          FROM crmsync_attempt a JOIN crmsync_outboxmessage m ON m.id = a.message_id
          JOIN crmsync_crmrecord r ON r.id = m.record_id
         WHERE a.begun_at >= %(since)s AND a.begun_at < %(until)s
    ), under AS MATERIALIZED (
        SELECT t.id, t.claim_id, t.begun_at, t.ended_at, t.failed, parent ->> 'object' AS object,
               coalesce(parent ->> 'external_id', parent ->> 'crm_id') AS key
          FROM tried t, jsonb_array_elements(t.parents) AS parent
         UNION ALL
        SELECT t.id, t.claim_id, t.begun_at, t.ended_at, t.failed, t.object, %(itself)s
          FROM tried t WHERE t.parents = '[]'
    ), met AS MATERIALIZED (
        SELECT u.* , u.key <> %(itself)s AND EXISTS (
                   SELECT FROM under o
                    WHERE o.object = u.object AND o.key = u.key AND o.claim_id <> u.claim_id
                      AND o.begun_at < u.ended_at AND o.ended_at > u.begun_at) AS ours
          FROM under u WHERE u.failed
    )
"""
BY_PARENT = (
    UNDER
    + """
    SELECT f.object, f.key, (SELECT count(*) FROM under u WHERE u.object = f.object AND u.key = f.key),
           count(*), count(*) FILTER (WHERE f.ours), max(f.ended_at)
      FROM met f GROUP BY 1, 2 ORDER BY 4 DESC, 1, 2 LIMIT %(most)s
"""
)
OURS = UNDER + "SELECT count(DISTINCT id) FROM met WHERE ours"
