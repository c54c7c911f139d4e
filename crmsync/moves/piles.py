"""Mass messages, piled by parent: planned a batch at a time, and the longest pile found without reading its rows.

Whole parents go together, the longest first, because the chunks of one parent can only follow one another: what is left
of the longest when everything else is done is waited for in vain. All of this happens under `take_turn`, one worker at
a time.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from crmsync.backoff import MOST_ROWS
from crmsync.chunks import Candidate, Limit
from crmsync.lockkeys import record_key
from crmsync.models import OutboxMessage, Pile
from crmsync.moves.parents import parents_coming
from crmsync.moves.reading import candidates_of, lock_keys_of, read

PLANNED = 2_000  # messages planned in one transaction: about two tenths of a second
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
    operation: str
    lane: str
    waiting: int
    most_rows: int

    @property
    def kind(self) -> tuple[str, str]:
        return self.object, self.operation


def take_turn() -> bool:
    """True: nobody else plans or chooses mass chunks until our transaction ends. Call inside a transaction, first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT crm_turn(%s)", [TURN_MS])
        return bool(cursor.fetchone()[0])


def pile_key(object: str, operation: str, lane: str) -> str:
    return f"{object} {operation}/{lane}"


# The oldest due mass messages that are in no pile yet, locked, and grouped by what decides their lock keys. Proves:
# nobody absorbs or claims them meanwhile. The loser, a producer, waits for this one transaction; what others hold is
# left for the next.
UNPLANNED = """
WITH due AS MATERIALIZED (
    {due}
)
SELECT r.object, due.operation, r.delivered_version IS NULL, due.parents, r.parents, array_agg(due.id), min(due.id)
  FROM due JOIN crmsync_crmrecord AS r ON r.id = due.record_id
 GROUP BY 1, 2, 3, 4, 5
"""
INTO_PILES = """
UPDATE crmsync_outboxmessage AS m SET pile = u.pile
  FROM unnest(%s::bigint[], %s::text[]) AS u(id, pile) WHERE m.id = u.id
"""
GROW = """
INSERT INTO crmsync_pile AS p (key, object, operation, lane, waiting, first_id, waits_for)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::int[], %s::bigint[], %s::bigint[])
ON CONFLICT (key) DO UPDATE
   SET waiting = p.waiting + excluded.waiting,
       first_id = CASE WHEN p.waiting > 0 THEN least(p.first_id, excluded.first_id) ELSE excluded.first_id END,
       waits_for = coalesce(excluded.waits_for, p.waits_for),
       due_at = CASE WHEN p.waiting > 0 THEN p.due_at ELSE clock_timestamp() END,
       since_at = CASE WHEN p.waiting > 0 THEN p.since_at ELSE clock_timestamp() END
"""


@dataclass(frozen=True, slots=True)
class Kin:
    """Unplanned messages of one object and operation with the same parents: rows of UNPLANNED."""

    object: str
    operation: str
    creating: bool
    parents: list[dict[str, str]]
    confirmed: list[dict[str, str]]
    ids: list[int]
    first_id: int


def read_unplanned() -> list[Kin]:
    """A batch of messages that are in no pile yet, locked. Call inside a transaction."""
    unplanned = OutboxMessage.objects.due().filter(priority=OutboxMessage.Priority.MASS, pile__isnull=True)
    locked = unplanned.order_by("pk").select_for_update(skip_locked=True, no_key=True, of=("self",))
    due, values = locked.values("id", "record_id", "operation", "parents")[:PLANNED].query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(UNPLANNED.format(due=due), values)
        return [
            Kin(object, operation, creating, json.loads(parents), json.loads(confirmed), ids, first_id)
            for object, operation, creating, parents, confirmed, ids, first_id in cursor.fetchall()
        ]


def plan_some() -> int:
    """Put a batch of due mass messages into piles; how many. Call inside a transaction that has the turn."""
    kins = read_unplanned()
    if not kins:
        return 0
    keys = lock_keys_of([(kin.object, kin.operation, kin.creating, kin.parents, kin.confirmed) for kin in kins])
    lanes = longest_lanes([(parent_keys, len(kin.ids)) for kin, parent_keys in zip(kins, keys, strict=True)])
    wanted = [(parent["object"], parent.get("external_id", "")) for kin in kins for parent in kin.parents]
    coming = {record_key(*name): message.record_id for name, message in parents_coming(wanted).items()}
    piles: dict[str, list[Kin]] = {}
    lane_of: dict[str, str] = {}
    for kin, lane in zip(kins, lanes, strict=True):
        key = pile_key(kin.object, kin.operation, lane)
        lane_of[key] = lane
        piles.setdefault(key, []).append(kin)
    ids = [number for group in piles.values() for kin in group for number in kin.ids]
    names = sorted(piles)
    with connection.cursor() as cursor:
        cursor.execute(INTO_PILES, [ids, [key for key, group in piles.items() for kin in group for _ in kin.ids]])
        cursor.execute(
            GROW,
            [
                names,
                [piles[key][0].object for key in names],
                [piles[key][0].operation for key in names],
                [lane_of[key] for key in names],
                [sum(len(kin.ids) for kin in piles[key]) for key in names],
                [min(kin.first_id for kin in piles[key]) for key in names],
                [coming.get(lane_of[key]) for key in names],
            ],
        )
    return len(ids)


def longest_lanes(wanted: Sequence[tuple[tuple[str, ...], int]]) -> list[str]:
    """For each group of messages (its lanes, how many there are) the lane it is piled under: of several parents the one
    with the most rows waiting; none without parents."""
    counts: Counter[str] = Counter()
    several: set[str] = set()
    for keys, count in wanted:
        counts.update(dict.fromkeys(keys, count))
        several.update(keys if len(keys) > 1 else ())
    if several:
        for lane, waiting in Pile.objects.filter(lane__in=several).values_list("lane", "waiting"):
            counts[lane] += waiting
    return [max(keys, key=lambda key: (counts[key], key)) if keys else "" for keys, _ in wanted]


# The lane is looked up pile by pile: as a join the planner takes open lanes for rare and reads all piles to sort them.
SEE = """
SELECT p.key, p.object, p.operation, p.lane, p.waiting,
       coalesce((SELECT l.most_rows FROM crmsync_lane AS l WHERE l.key = p.lane), %(most)s),
       p.waits_for IS NOT NULL AND EXISTS (
           SELECT FROM crmsync_crmrecord AS r JOIN crmsync_outboxmessage AS m ON m.record_id = r.id
            WHERE r.id = p.waits_for AND r.delivered_version IS NULL AND m.status IN ('pending', 'claimed')
              AND m.id < p.first_id)
  FROM crmsync_pile AS p
 WHERE p.waiting > 0 AND p.due_at <= clock_timestamp() AND coalesce((
           SELECT l.claim_id IS NULL AND l.not_before <= clock_timestamp()
                  AND coalesce(l.quarantined_until <= clock_timestamp(), true)
                  AND coalesce(l.reserved_until <= clock_timestamp(), true)
             FROM crmsync_lane AS l WHERE l.key = p.lane), true)
"""
LONGEST = SEE + " ORDER BY p.waiting DESC LIMIT %(seen)s"
LEFT = SEE + " AND p.since_at < clock_timestamp() - %(left_s)s * interval '1 second' ORDER BY p.since_at LIMIT %(seen)s"
FITTING = (
    SEE
    + """ AND p.object = %(object)s AND p.operation = %(operation)s
   AND p.waiting <= %(room)s AND NOT p.key = ANY (%(taken)s)
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


def pick(*, limit_of: Limit, dice: float, crew: int = 1) -> tuple[list[Picked], int]:
    """The piles of the next chunk, and how many rows it may have: the longest pile, then the longest that still fit.

    `crew`: among how many workers what is left is shared out. Now and then (`dice`, 0 to 1) a pile that was left for
    long goes first, so that none waits for ever. Call inside a transaction that has the turn.
    """
    seen = see(LEFT)[:1] if dice < LEFT_SHARE else []
    seen = seen or see(LONGEST)
    if not seen:
        return [], 0
    leader = seen[0]
    limit = shared_out(limit_of(leader.kind, 0, leader.most_rows), leader=leader, seen=seen, crew=crew)
    picked, room = [leader], limit - leader.waiting
    others = [pile for pile in seen[1:] if pile.kind == leader.kind]
    while room > 0:
        before = room
        for pile in others:
            if pile.waiting <= room and pile.most_rows >= min(limit, MOST_ROWS):
                picked.append(pile)
                room -= pile.waiting
        if room == 0 or (room == before and len(picked) > 1):
            break
        taken = [pile.key for pile in picked]
        others = see(FITTING, object=leader.object, operation=leader.operation, room=room, taken=taken)
        if not others:
            break
    return picked, limit


def shared_out(limit: int, *, leader: Picked, seen: Sequence[Picked], crew: int) -> int:
    """The rows of a chunk where less is left than a full one for each of the crew: an equal share, so that nobody has
    nothing to do while the last full chunks are under way.

    Half a chunk at least, for each costs the org a transaction; and as much of the longest pile as fits, whose chunks
    can only follow one another. Jobs are not shared out: the org runs the rows of each side by side.
    """
    if crew == 1 or limit > MOST_ROWS or sum(pile.waiting for pile in seen if pile.kind == leader.kind) >= crew * limit:
        return limit
    share = -(-due_of(*leader.kind, most=crew * limit) // crew)
    return min(limit, max(limit // 2, share, leader.waiting))


def read_piles(picked: Sequence[Picked], *, most: int) -> list[Candidate]:
    """The messages of these piles, pile by pile, each from its oldest on; `most` of them at most."""
    places = {pile.key: place for place, pile in enumerate(picked)}
    rows = OutboxMessage.objects.due().newest().filter(pile__in=list(places))
    messages = read(rows.order_by("pk")[:most])
    return candidates_of(sorted(messages, key=lambda message: places[message.pile]))


SHRINK = """
UPDATE crmsync_pile AS p
   SET waiting = u.waiting, since_at = CASE WHEN u.taken THEN clock_timestamp() ELSE p.since_at END
  FROM unnest(%s::text[], %s::int[], %s::bool[]) AS u(key, waiting, taken) WHERE p.key = u.key
"""


LEAVE = """
UPDATE crmsync_outboxmessage SET pile = NULL WHERE pile = ANY (%s) AND status = 'pending' AND NOT id = ANY (%s)
"""


def shrink(picked: Sequence[Picked], *, read: Sequence[Candidate], gone: Mapping[str, int], whole: bool) -> None:
    """Count out of the piles what was taken or put off (`gone`, by pile). `whole`: all that is due in them was read, so
    the count of what is left is exact again; what is not due any more leaves its pile and is planned anew."""
    there = Counter(candidate.pile for candidate in read)
    left = [
        max(0, (there[pile.key] if whole else max(pile.waiting, there[pile.key])) - gone.get(pile.key, 0))
        for pile in picked
    ]
    with connection.cursor() as cursor:
        if whole and (short := [pile.key for pile in picked if there[pile.key] < pile.waiting]):
            cursor.execute(LEAVE, [short, [candidate.message_id for candidate in read]])
        cursor.execute(SHRINK, [[p.key for p in picked], left, [p.key in gone for p in picked]])


def hold_less_than(rows: int) -> bool:
    """Fewer messages wait in piles than so many."""
    longest = Pile.objects.filter(waiting__gt=0).order_by("-waiting").values_list("waiting", flat=True)
    return sum(longest[: MOST_ROWS // 2]) < rows and sum(longest[:rows]) < rows


def due_of(object: str, operation: str, *, most: int) -> int:
    """How many mass messages of the object and operation wait in piles; counted up to about `most`."""
    longest = Pile.objects.filter(object=object, operation=operation, waiting__gt=0).order_by("-waiting")
    return sum(longest.values_list("waiting", flat=True)[:most])
