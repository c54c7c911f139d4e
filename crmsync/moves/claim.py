"""A worker takes the next chunk: the messages, and the lanes that keep everybody else off what they will lock.

Who was passed over for too long goes first, then what a person waits for, then mass updates by the longest pile. Reads
a bounded head of the due messages, never the whole table. A message or lane that another transaction holds is left to
it; only who chooses among piles waits, for whoever is choosing.
"""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from crmsync import roads
from crmsync.backoff import MOST_ROWS
from crmsync.chunks import Candidate, Lanes, choose
from crmsync.models import OutboxMessage
from crmsync.moves import piles, plan
from crmsync.moves.lanes import add_lanes
from crmsync.moves.limits import Limits
from crmsync.moves.open_batches import with_unplanned
from crmsync.moves.org import Admission, admit
from crmsync.moves.pace import GOES_FIRST, pace
from crmsync.moves.reading import RECORD_SEEN, SEEN, candidates_of, look, note_passed, policy, put_off, read
from crmsync.moves.reserve import PATIENCE_MS, reserve
from crmsync.moves.waiting import what_waits

HEAD = 200
WINDOWS = 5  # how many heads deep a worker looks past lanes that others hold
PICKS = 5  # how often a worker chooses anew when all of what it chose was in somebody's way
AHEAD = 3_000  # rows in piles: enough to tell which parents will have the most, and chunks for the first workers
PLAN_S = 1.0  # how long a worker that asks for a chunk plans, at most
NO_LANES: Lanes = {}
INTERACTIVE, MASS = OutboxMessage.Priority.INTERACTIVE, OutboxMessage.Priority.MASS


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one worker holds under one claim, in sending order, and the road it should take."""

    token: UUID
    worker: str
    object: str
    operation: str
    rows: tuple[Candidate, ...]
    road: str = roads.Road.COLLECTIONS
    rank: int = 0  # of mass chunks that are ready the one with the highest begins first

    @property
    def is_mass(self) -> bool:
        return all(row.priority == MASS for row in self.rows)

    @property
    def is_of_a_chain(self) -> bool:
        """Its pile had more rows than a chunk: the next can only follow this one, and should at once. Or it goes before
        any pile.
        """
        return self.rank > MOST_ROWS


def claim_next(*, worker: str, mass_here: int | None = None) -> Chunk | None:
    """The next chunk for this worker, or None: nothing that is due can be sent now.

    `mass_here`: so many mass chunks at most may be claimed from this host, so that a worker is left for what a person
    waits for. Between two batches of planning it looks at that first, too.
    """
    until = time.monotonic() + PLAN_S
    while (waiting := what_waits()).sends:
        room = waiting.mass and pace(worker=worker).has_room(most_here=mass_here)
        if waiting.passed and (chunk := claim_passed(worker=worker, mass=room)):
            return chunk
        if waiting.urgent and (chunk := claim_head(worker=worker)):
            return chunk
        if not room:
            return None
        chunk, planned = claim_mass(worker=worker, mass_here=mass_here, planning=time.monotonic() < until)
        if chunk or not planned:
            return chunk
    return None


def claim_passed(*, worker: str, mass: bool) -> Chunk | None:
    """Those that others have been passing over: they get their lanes, or have them reserved."""
    late = Now() - timedelta(milliseconds=PATIENCE_MS)
    passed = OutboxMessage.objects.due().newest().filter(passed_at__isnull=False, passed_at__lte=late)
    if not mass:
        passed = passed.filter(priority=INTERACTIVE)
    head = read(passed.order_by("passed_at", "pk")[:HEAD])
    if not head:
        return None
    looked = look(candidates_of(head))
    put_off(looked.later)
    reserve(looked.passed)
    return take_first(worker=worker, sendable=looked.sendable, lanes=looked.lanes, rank=GOES_FIRST)


def claim_head(*, worker: str) -> Chunk | None:
    """Interactive messages, the oldest first."""
    seen: list[int] = []
    since: datetime | None = None
    for _ in range(WINDOWS):
        head = read_head(priority=INTERACTIVE, since=since, seen=seen)
        if not head:
            return None
        looked = look(candidates_of(head))
        put_off(looked.later)
        note_passed(looked.passed)
        if chunk := take_first(worker=worker, sendable=looked.sendable, lanes=looked.lanes):
            return chunk
        seen += [message.pk for message in head]
        since = head[-1].due_at
        if len(head) < HEAD:
            return None
    return None


def read_head(*, priority: int, since: datetime | None, seen: Sequence[int]) -> list[Any]:
    head = OutboxMessage.objects.due().newest().filter(priority=priority)
    if since is not None:
        head = head.filter(due_at__gte=since).exclude(pk__in=seen)
    return read(head.order_by("due_at", "pk")[:HEAD])


def take_first(*, worker: str, sendable: Sequence[Candidate], lanes: Lanes, rank: int = 0) -> Chunk | None:
    """Others start at the same head: what they were faster with is left out of the next choice."""
    while chosen := choose(sendable, lanes):
        if chunk := take(worker=worker, wanted=chosen, lanes=lanes, rank=rank):
            return chunk
        lost = {candidate.message_id for candidate in chosen}
        sendable = [candidate for candidate in sendable if candidate.message_id not in lost]
    return None


def claim_mass(*, worker: str, mass_here: int | None, planning: bool) -> tuple[Chunk | None, int]:
    """A chunk of the longest pile and of those that fit beside it; or how many messages were put into piles instead.

    That is done while the piles hold too little to know which will be the longest, and, as nobody waits for it, by the
    last who may claim a chunk.
    """
    with transaction.atomic(durable=True):
        if not piles.take_turn():
            return None, 0
        running = pace(worker=worker)
        unplanned = with_unplanned() if planning else []
        if unplanned and (running.is_last or piles.hold_less_than(AHEAD)):
            if planned := plan.plan_some(unplanned):
                return None, planned
            unplanned = []
        if not running.has_room(most_here=mass_here):
            return None, 0
        all_planned = planning and not unplanned  # so these are the last rows
        for _ in range(PICKS):
            limits = Limits()
            picked, most = piles.pick(
                limit_of=limits,
                crew=min(running.live + 1, running.most) if all_planned else 1,
                dice=random.random(),
            )
            if not picked or (most > MOST_ROWS and running.is_full):  # a pile that goes by job is not made ready
                break
            rows = piles.read_piles(picked, most=most)
            looked = look(rows)
            put_off(looked.later)
            note_passed(looked.passed)
            away = [row for row in rows if row.message_id in looked.later] + looked.passed
            chunk = None
            if chosen := choose(looked.sendable, looked.lanes, limits):
                rank = GOES_FIRST if picked[0].was_left else picked[0].waiting
                chunk = hold(worker=worker, wanted=chosen, lanes=looked.lanes, rank=rank, limits=limits)
            gone = Counter(row.pile or "" for row in (*away, *(chunk.rows if chunk else ())))
            piles.shrink(picked, read=rows, gone=gone, whole=len(rows) < most)
            if chunk:
                return chunk, 0
    return None, 0


def take(*, worker: str, wanted: Sequence[Candidate], lanes: Lanes = NO_LANES, rank: int = 0) -> Chunk | None:
    """Claim those of the wanted messages all of whose lanes are free, or None."""
    add_lanes(sorted({key for candidate in wanted for key in candidate.keys}))
    with transaction.atomic(durable=True):
        return hold(worker=worker, wanted=wanted, lanes=lanes, rank=rank)


# The lanes. Proves: nobody else writes under these keys, nor will before our claim ends. Costs: nobody waits, others
# skip them. The loser leaves the messages that need a lane he did not get to whoever got it.
LOCK_LANES = """
SELECT key FROM crmsync_lane
 WHERE key = ANY (%s) AND claim_id IS NULL AND not_before <= clock_timestamp()
   AND (quarantined_until IS NULL OR quarantined_until <= clock_timestamp())
   AND (reserved_until IS NULL OR reserved_until <= clock_timestamp() OR reserved_for = ANY (%s))
 ORDER BY key FOR NO KEY UPDATE SKIP LOCKED
"""
# The claim they name follows in the same transaction.
NEW_LANES = """
INSERT INTO crmsync_lane (key, claim_id) SELECT key, %s FROM unnest(%s::text[]) AS u(key) ORDER BY key
ON CONFLICT DO NOTHING RETURNING key
"""
CLAIM = """
WITH claim AS (
    INSERT INTO crmsync_claim (token, worker, rank, lease_until)
    VALUES (%(token)s, %(worker)s, %(rank)s, clock_timestamp() + %(s)s * interval '1 second')
), messages AS (
    UPDATE crmsync_outboxmessage SET status = 'claimed', claim_id = %(token)s, passed_at = NULL
     WHERE id = ANY (%(ids)s)
)
UPDATE crmsync_lane
   SET claim_id = %(token)s, reserved_for = NULL, reserved_since = NULL, reserved_until = NULL
 WHERE key = ANY (%(keys)s)
"""


def lock_messages(wanted: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Those of the wanted messages that are ours now, as they were read. Call in a transaction that has their lanes.

    The lock proves: nobody absorbs them or puts anything back into them until we commit. The loser skips. What somebody
    put back into a message, or the CRM confirmed of its record, between the look and our lanes would be sent without
    that, or under too few lanes: such a one is left to the next look.
    """
    due = OutboxMessage.objects.due().filter(pk__in=[row.message_id for row in wanted]).order_by("pk")
    locked = due.select_for_update(skip_locked=True, no_key=True, of=("self",))
    seen = {pk: marks for pk, *marks, _ in locked.values_list("pk", SEEN, RECORD_SEEN, "record__version")}
    mine = tuple(row for row in wanted if seen.get(row.message_id) == list(row.seen))
    if not any(policy().looks_beyond(object) for object in {row.object for row in mine}):
        return mine
    again = read(OutboxMessage.objects.filter(pk__in=[row.message_id for row in mine]))
    keys = {row.message_id: row.keys for row in candidates_of(again)}
    return tuple(row for row in mine if keys[row.message_id] == row.keys)


def hold(
    *, worker: str, wanted: Sequence[Candidate], lanes: Lanes, rank: int, limits: Limits | None = None
) -> Chunk | None:
    """Claim those of the wanted messages all of whose lanes are free, or None. Call inside a transaction.

    Lanes that are missing are inserted here, as ours, only for who has the turn: an interactive message that needs the
    same new lane then waits for that one transaction.
    """
    keys = sorted({key for candidate in wanted for key in candidate.keys})
    ids, token, new = [candidate.message_id for candidate in wanted], uuid4(), set()
    with connection.cursor() as cursor:
        if limits:
            cursor.execute(NEW_LANES, [token, [key for key in keys if key not in lanes]])
            new = {key for (key,) in cursor.fetchall()}
        cursor.execute(LOCK_LANES, [[key for key in keys if key not in new], ids])
        free = new.union(key for (key,) in cursor.fetchall())
    rows = lock_messages([row for row in wanted if free.issuperset(row.keys)])
    held = {key for row in rows for key in row.keys}
    admission = admit() if rows else Admission.NO
    admitted = admission is not Admission.NO
    rank = GOES_FIRST if admission is Admission.PROBE else rank
    with connection.cursor() as cursor:
        if unneeded := list(new - held if admitted else new):
            cursor.execute("DELETE FROM crmsync_lane WHERE key = ANY (%s)", [unneeded])
        if not admitted:
            return None
        values: dict[str, Any] = {"token": token, "worker": worker, "rank": rank, "s": settings.CRM_LEASE_S}
        cursor.execute(CLAIM, {**values, "ids": [row.message_id for row in rows], "keys": list(held - new)})
    return Chunk(
        token=token,
        worker=worker,
        object=rows[0].object,
        operation=rows[0].operation,
        rows=rows,
        road=(limits or Limits()).road(rows, lanes),
        rank=rank,
    )
