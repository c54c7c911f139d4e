"""Mass messages, piled by parent: planned a batch at a time, and the longest pile found without reading its rows.

Whole parents go together, the longest first, because the chunks of one parent can only follow one another: what is left
of the longest when everything else is done is waited for in vain. All of this happens under `take_turn`, one worker at
a time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from crmsync.backoff import MOST_ROWS
from crmsync.chunks import Candidate, Limit
from crmsync.lockkeys import record_key
from crmsync.models import Operation, OutboxMessage, Pile
from crmsync.moves.reading import READ, candidates_of, parents_coming

PLANNED = 2_000  # messages planned in one transaction: some tens of milliseconds
TURN_MS = 1_000
SEEN = 200  # piles looked at in one statement
LEFT_S = 60  # a pile nobody has taken from for so long is taken before longer ones, now and then
LEFT_SHARE = 1 / 8
SHUT_MS = 500  # a pile whose parent is being created


@dataclass(frozen=True, slots=True)
class Picked:
    """A pile that nothing known stands in the way of."""

    key: str
    object: str
    lane: str
    waiting: int
    failures: int
    most_rows: int


def take_turn() -> bool:
    """True: nobody else plans or chooses mass chunks until our transaction ends. Call inside a transaction, first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT crm_turn(%s)", [TURN_MS])
        return bool(cursor.fetchone()[0])


def pile_key(object: str, operation: str, lane: str) -> str:
    """A pile is of one object and one operation, as the chunks are that are taken from it."""
    return f"{object}/{lane}" if operation == Operation.UPSERT else f"{object}/{operation}/{lane}"


INTO_PILES = """
UPDATE crmsync_outboxmessage AS m SET pile = u.pile
  FROM unnest(%s::bigint[], %s::text[]) AS u(id, pile) WHERE m.id = u.id
"""
GROW = """
INSERT INTO crmsync_pile AS p (key, object, lane, waiting, first_id, waits_for)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::int[], %s::bigint[], %s::bigint[])
ON CONFLICT (key) DO UPDATE
   SET waiting = p.waiting + excluded.waiting,
       first_id = CASE WHEN p.waiting > 0 THEN least(p.first_id, excluded.first_id) ELSE excluded.first_id END,
       waits_for = coalesce(excluded.waits_for, p.waits_for),
       due_at = CASE WHEN p.waiting > 0 THEN p.due_at ELSE clock_timestamp() END,
       since_at = CASE WHEN p.waiting > 0 THEN p.since_at ELSE clock_timestamp() END
"""


def read_unplanned() -> list[Any]:
    """The oldest due mass messages that are in no pile, locked. Proves: nobody absorbs or claims them meanwhile. The
    loser, a producer, waits for this one transaction; what others hold is left for the next."""
    unplanned = OutboxMessage.objects.due().newest().filter(priority=OutboxMessage.Priority.MASS, pile__isnull=True)
    rows = unplanned.order_by("due_at", "pk").select_for_update(skip_locked=True, no_key=True, of=("self",))
    return list(rows.values_list(*READ, named=True)[:PLANNED])


def plan_some() -> int:
    """Put a batch of due mass messages into piles; how many. Call inside a transaction that has the turn."""
    messages = read_unplanned()
    if not messages:
        return 0
    candidates = candidates_of(messages)
    coming = {record_key(*name): message.record_id for name, message in parents_coming(candidates).items()}
    lanes = longest_lanes(candidates)
    piles: dict[str, list[Candidate]] = {}
    lane_in: dict[str, str] = {}
    for candidate in candidates:
        lane = lanes.get(candidate.message_id, "")
        key = pile_key(candidate.object, candidate.operation, lane)
        lane_in[key] = lane
        piles.setdefault(key, []).append(candidate)
    ids = [row.message_id for rows in piles.values() for row in rows]
    keys = sorted(piles)
    with connection.cursor() as cursor:
        cursor.execute(INTO_PILES, [ids, [key for key, rows in piles.items() for _ in rows]])
        cursor.execute(
            GROW,
            [
                keys,
                [piles[key][0].object for key in keys],
                [lane_in[key] for key in keys],
                [len(piles[key]) for key in keys],
                [min(row.message_id for row in piles[key]) for key in keys],
                [coming.get(lane_in[key]) for key in keys],
            ],
        )
    return len(ids)


def longest_lanes(candidates: Sequence[Candidate]) -> dict[int, str]:
    """By message the lane it is piled under: of several parents the one with the most rows waiting."""
    counts: Counter[str] = Counter(key for candidate in candidates for key in candidate.parent_keys)
    several = {key for candidate in candidates if len(candidate.parent_keys) > 1 for key in candidate.parent_keys}
    if several:
        for lane, waiting in Pile.objects.filter(lane__in=several).values_list("lane", "waiting"):
            counts[lane] += waiting
    return {
        candidate.message_id: max(candidate.parent_keys, key=lambda key: (counts[key], key))
        for candidate in candidates
        if candidate.parent_keys
    }


SEE = """
SELECT p.key, p.object, p.lane, p.waiting, coalesce(l.failures, 0), coalesce(l.most_rows, %(most)s),
       p.waits_for IS NOT NULL AND EXISTS (
           SELECT FROM crmsync_crmrecord AS r JOIN crmsync_outboxmessage AS m ON m.record_id = r.id
            WHERE r.id = p.waits_for AND r.delivered_version IS NULL AND m.status IN ('pending', 'claimed')
              AND m.id < p.first_id)
  FROM crmsync_pile AS p LEFT JOIN crmsync_lane AS l ON l.key = p.lane
 WHERE p.waiting > 0 AND p.due_at <= clock_timestamp() AND (l.key IS NULL OR (
       l.claim_id IS NULL AND l.not_before <= clock_timestamp()
       AND coalesce(l.quarantined_until <= clock_timestamp(), true)
       AND coalesce(l.reserved_until <= clock_timestamp(), true)))
"""
LONGEST = SEE + " ORDER BY p.waiting DESC LIMIT %(seen)s"
LEFT = SEE + " AND p.since_at < clock_timestamp() - %(left_s)s * interval '1 second' ORDER BY p.since_at LIMIT %(seen)s"
FITTING = (
    SEE
    + """ AND p.object = %(object)s AND p.waiting <= %(room)s AND NOT p.key = ANY (%(taken)s)
 ORDER BY p.waiting DESC LIMIT %(seen)s"""
)
SHUT = "UPDATE crmsync_pile SET due_at = clock_timestamp() + %s * interval '1 millisecond' WHERE key = ANY (%s)"


def see(statement: str, **values: Any) -> list[Picked]:
    """Open piles, in the order of the statement. Those whose parent is yet to be created are shut for a moment, so that
    they are not looked at again and again."""
    with connection.cursor() as cursor:
        while True:
            cursor.execute(statement, {"most": MOST_ROWS, "seen": SEEN, "left_s": LEFT_S, **values})
            rows = cursor.fetchall()
            if shut := [row[0] for row in rows if row[-1]]:
                cursor.execute(SHUT, [SHUT_MS, shut])
            found = [Picked(*row[:-1]) for row in rows if not row[-1]]
            if found or not shut:
                return found


def pick(*, limit_of: Limit, dice: float) -> tuple[list[Picked], int]:
    """The piles of the next chunk, and how many rows it may have: the longest pile, then the longest that still fit.

    Now and then (`dice`, 0 to 1) a pile that was left for long goes first, so that none waits for ever. Call inside a
    transaction that has the turn.
    """
    seen = see(LEFT)[:1] if dice < LEFT_SHARE else []
    seen = seen or see(LONGEST)
    if not seen:
        return [], 0
    leader = seen[0]
    limit = limit_of(leader.object, leader.failures, leader.most_rows)
    picked, room = [leader], limit - leader.waiting
    others = [pile for pile in seen[1:] if pile.object == leader.object]
    while room > 0:
        before = room
        for pile in others:
            if pile.waiting <= room and pile.most_rows >= min(limit, MOST_ROWS):
                picked.append(pile)
                room -= pile.waiting
        if room == 0 or (room == before and len(picked) > 1):
            break
        others = see(FITTING, object=leader.object, room=room, taken=[pile.key for pile in picked])
        if not others:
            break
    return picked, limit


def read_piles(picked: Sequence[Picked], *, most: int) -> list[Candidate]:
    """The messages of these piles, pile by pile, each from its oldest on; `most` of them at most."""
    places = {pile.key: place for place, pile in enumerate(picked)}
    rows = OutboxMessage.objects.due().newest().filter(pile__in=list(places))
    messages = list(rows.order_by("pk").values_list(*READ, named=True)[:most])
    return candidates_of(sorted(messages, key=lambda message: places[message.pile]))


SHRINK = """
UPDATE crmsync_pile AS p
   SET waiting = u.waiting, since_at = CASE WHEN u.taken THEN clock_timestamp() ELSE p.since_at END
  FROM unnest(%s::text[], %s::int[], %s::bool[]) AS u(key, waiting, taken) WHERE p.key = u.key
"""


def shrink(picked: Sequence[Picked], *, read: Sequence[Candidate], gone: Mapping[str, int], whole: bool) -> None:
    """Count out of the piles what was taken or put off (`gone`, by pile). `whole`: all that is in them was read, so the
    count of what is left is exact again."""
    there = Counter(candidate.pile for candidate in read)
    left = [
        max(0, (there[pile.key] if whole else max(pile.waiting, there[pile.key])) - gone.get(pile.key, 0))
        for pile in picked
    ]
    with connection.cursor() as cursor:
        cursor.execute(SHRINK, [[p.key for p in picked], left, [p.key in gone for p in picked]])


def due_of(object: str, *, most: int) -> int:
    """How many mass messages of the object wait in piles; counted up to about `most`."""
    longest = Pile.objects.filter(object=object, waiting__gt=0).order_by("-waiting").values_list("waiting", flat=True)
    return sum(longest[:most])


EMPTY = """
DELETE FROM crmsync_pile WHERE key = ANY (ARRAY(
    SELECT key FROM crmsync_pile AS p
     WHERE waiting = 0 AND since_at < clock_timestamp() - %s * interval '1 second'
       AND NOT EXISTS (SELECT FROM crmsync_outboxmessage AS m WHERE m.pile = p.key AND m.status = 'pending')
     ORDER BY since_at LIMIT %s))
"""


def prune_empty(*, idle_s: float, most: int) -> int:
    """Delete piles that have long been empty; none while others plan."""
    with transaction.atomic(durable=True):
        if not take_turn():
            return 0
        with connection.cursor() as cursor:
            cursor.execute(EMPTY, [idle_s, most])
            return cursor.rowcount
