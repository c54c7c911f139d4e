"""How many mass chunks may be on their way at once, over all workers and hosts: learned from what the org answers.

A few more may be claimed, by workers that would have nothing to do: they are ready when a place is free, so that the
org need not wait until somebody has chosen. Of those that are ready the one with the longest pile takes the place.

One more for every round of clean chunks, half as many after lock failures or a refusal for load; one cut in a window,
however many chunks of it failed together (additive increase, multiplicative decrease). Interactive messages are counted
but never held back. Between workers it lives in the org's one row, which settling a mass chunk updates last and
beginning one locks first.
"""

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import connection

FIRST = 4
GOES_FIRST = 2_000_000_000  # the rank of what goes before any pile: the probe after a pause, who was passed over
WINDOW_S = 10
LOCKED_SHARE = 0.01  # of a window's rows: from here on lock failures are no accident
READY_SHARE = 1 / 4  # of those under way may be ready; one at least
SLOW_S = 15  # Salesforce counts calls from 20 s on, and takes 25 of them at once

# A cut begins a new window, so that the next one comes of what was sent at the lower pace.
NOTE = """
UPDATE crmsync_orgstate AS o
   SET (window_at, window_rows, window_locked, concurrency, cut_at) = (
    SELECT CASE WHEN cut THEN clock_timestamp() ELSE began END,
           CASE WHEN cut THEN 0 ELSE seen END,
           CASE WHEN cut THEN 0 ELSE locked END,
           CASE WHEN cut THEN greatest(1, o.concurrency / 2)
                WHEN %(locked)s = 0 AND NOT pressed THEN greatest(1, least(%(most)s, o.concurrency + 1 / o.concurrency))
                ELSE o.concurrency END,
           CASE WHEN cut THEN clock_timestamp() ELSE o.cut_at END
      FROM (SELECT began, seen, locked, pressed,
                   (pressed OR (locked > 0 AND locked >= %(share)s * seen))
                   AND coalesce(o.cut_at < clock_timestamp() - %(window_s)s * interval '1 second', true) AS cut
              FROM (SELECT CASE WHEN over THEN clock_timestamp() ELSE o.window_at END AS began,
                           CASE WHEN over THEN 0 ELSE o.window_rows END + %(rows)s AS seen,
                           CASE WHEN over THEN 0 ELSE o.window_locked END + %(locked)s AS locked,
                           %(refused)s OR EXISTS (
                               SELECT FROM crmsync_claim WHERE token = %(token)s
                                  AND begun_at < clock_timestamp() - %(slow_s)s * interval '1 second') AS pressed
                      FROM (SELECT coalesce(o.window_at < clock_timestamp() - %(window_s)s * interval '1 second', true)
                                   AS over) AS age) AS counted) AS judged)
 WHERE id = 1
"""
FIRST_ROW = "INSERT INTO crmsync_orgstate (id) VALUES (1) ON CONFLICT DO NOTHING"


def note_chunk(*, rows: int, locked: int, refused: bool = False, call: UUID | None = None) -> None:
    """A mass chunk was answered: `locked` of its rows failed for locks; `refused`: the org did not take it for load.
    `call`: the claim of a single call, which counts as refused where it took longer than SLOW_S. Call inside a
    transaction, as its last statement but COMMIT."""
    values = {
        "rows": rows,
        "locked": locked,
        "refused": refused,
        "token": call,
        "slow_s": SLOW_S,
        "most": float(settings.CRM_CONCURRENCY_MOST),
        "share": LOCKED_SHARE,
        "window_s": WINDOW_S,
    }
    with connection.cursor() as cursor:
        cursor.execute(NOTE, values)
        if not cursor.rowcount:
            cursor.execute(FIRST_ROW)
            cursor.execute(NOTE, values)


LIVE = """
SELECT count(*), count(*) FILTER (WHERE worker LIKE %s),
       coalesce((SELECT concurrency FROM crmsync_orgstate WHERE id = 1), %s),
       EXISTS (SELECT FROM crmsync_bulkjob WHERE NOT status IN ('harvested', 'aborted'))
  FROM crmsync_claim WHERE ended_at IS NULL AND lease_until > clock_timestamp()
"""


@dataclass(frozen=True, slots=True)
class Pace:
    """Chunks that are claimed, in all and by the workers of this host; how many mass chunks may be under way, and how
    many more may be ready.
    """

    live: int
    here: int
    most: int
    ready: int

    @property
    def is_last(self) -> bool:
        """With one chunk more there are as many as there may be."""
        return self.live + 1 >= self.most + self.ready

    @property
    def is_full(self) -> bool:
        """As many are claimed as may be under way: one more would have to wait."""
        return self.live >= self.most

    def has_room(self, *, most_here: int | None) -> bool:
        return self.live < self.most + self.ready and (most_here is None or self.here < most_here)


def pace(*, worker: str) -> Pace:
    """The pace now. A claim whose worker let its lease run out does not count. While jobs are under way none is made
    ready: nobody knows how long they take.
    """
    host = worker.rpartition(":")[0].replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    with connection.cursor() as cursor:
        cursor.execute(LIVE, [f"{host}:%", float(FIRST)])
        live, here, concurrency, jobs = cursor.fetchone()
    most = min(int(concurrency), settings.CRM_CONCURRENCY_MOST)
    return Pace(live, here, most, 0 if jobs else max(1, int(most * READY_SHARE)))


# Fewer are under way, or ready and go before this one, than there may be.
PLACE = """
SELECT count(*) < least(coalesce((SELECT floor(concurrency) FROM crmsync_orgstate WHERE id = 1), %(first)s), %(most)s)
  FROM crmsync_claim AS c, (SELECT rank FROM crmsync_claim WHERE token = %(token)s) AS mine
 WHERE c.ended_at IS NULL AND c.lease_until > clock_timestamp() AND c.token <> %(token)s
   AND CASE WHEN c.begun_at IS NULL THEN c.rank > mine.rank ELSE c.answered_at IS NULL END
"""
LOCK = "SELECT FROM crmsync_orgstate WHERE id = 1 FOR NO KEY UPDATE"


def has_place(*, token: UUID) -> bool:
    """Whether the mass chunk of this claim may begin."""
    with connection.cursor() as cursor:
        cursor.execute(PLACE, {"token": token, "first": FIRST, "most": settings.CRM_CONCURRENCY_MOST})
        return bool(cursor.fetchone()[0])


# The disk is not waited for: a crash of the server ends the call, too.
LEAVE = """
UPDATE crmsync_claim SET answered_at = clock_timestamp()
  FROM (SELECT set_config('synchronous_commit', 'off', true)) AS unwaited WHERE token = %s
"""


def leave_place(*, token: UUID) -> None:
    """The mass chunk of this claim is answered: another may begin while it is settled."""
    with connection.cursor() as cursor:
        cursor.execute(LEAVE, [token])


def take_place(*, token: UUID) -> bool:
    """Whether the mass chunk of this claim may begin; it stays so until the current transaction ends.

    Proves: no two take the last place. Costs: who begins or settles a mass chunk waits for that one transaction.
    """
    with connection.cursor() as cursor:
        cursor.execute(LOCK)
        if not cursor.rowcount:
            cursor.execute(FIRST_ROW)
            cursor.execute(LOCK)
    return has_place(token=token)
