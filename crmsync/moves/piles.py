"""Mass messages, piled by parent: the longest pile is found without reading its rows, or those of a paused mass update.

Whole parents go together, the longest first, because the chunks of one parent can only follow one another: what is left
of the longest when everything else is done is waited for in vain. All of this happens under `take_turn`, one worker at
a time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection
from django.db.models import QuerySet, Sum

from crmsync.backoff import MOST_ROWS
from crmsync.chunks import Candidate, Limit
from crmsync.models import OutboxMessage, Pile
from crmsync.moves.open_batches import with_piles
from crmsync.moves.reading import candidates_of, read

TURN_MS = 1_000
SEEN = 200  # piles looked at in one statement
LEFT_S = 60  # a pile nobody has taken from for so long is taken before longer ones, now and then
LEFT_SHARE = 1 / 8
SHUT_MS, SHUT_MOST_MS = 500, 60_000  # a pile whose parent is being created


@dataclass(frozen=True, slots=True)
class Picked:
    """A pile that nothing known stands in the way of."""

    key: str
    object: str
    operation: str
    lane: str
    waiting: int
    most_rows: int
    was_left: bool = False  # for so long that it goes before longer ones

    @property
    def kind(self) -> tuple[str, str]:
        return self.object, self.operation


# Every statement of a turn reads by index, whatever the statistics say: they are old whenever a mass update has come.
# Its commit is not waited for: that of `begin`, which follows in the log before anything is sent, is. A crash of the
# server in between takes back plans and claims that nobody has acted on.
TURN = """
SELECT crm_turn(%s), set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('synchronous_commit', 'off', true)
"""


def take_turn() -> bool:
    """True: nobody else plans or chooses mass chunks until our transaction ends. Call inside a transaction, first."""
    with connection.cursor() as cursor:
        cursor.execute(TURN, [TURN_MS])
        return bool(cursor.fetchone()[0])


# The lane is looked up pile by pile: as a join the planner takes open lanes for rare and reads all piles to sort them.
# So are the mass updates that are open: behind a paused one may be more piles than all others have.
SEE = """
SELECT p.key, p.object, p.operation, p.lane, p.waiting,
       coalesce((SELECT l.most_rows FROM crmsync_lane AS l WHERE l.key = p.lane), %(most)s),
       p.waits_for IS NOT NULL AND EXISTS (
           SELECT FROM crmsync_crmrecord AS r JOIN crmsync_outboxmessage AS m ON m.record_id = r.id
            WHERE r.id = p.waits_for AND r.delivered_version IS NULL AND m.status IN ('pending', 'claimed')
              AND m.id < p.first_id)
  FROM unnest(%(open)s::bigint[]) AS o(batch) CROSS JOIN LATERAL (
    SELECT * FROM crmsync_pile AS p
     WHERE p.batch = o.batch AND p.waiting > 0 AND p.due_at <= clock_timestamp() AND coalesce((
               SELECT l.claim_id IS NULL AND l.not_before <= clock_timestamp()
                      AND coalesce(l.quarantined_until <= clock_timestamp(), true)
                      AND coalesce(l.reserved_until <= clock_timestamp(), true)
                 FROM crmsync_lane AS l WHERE l.key = p.lane), true) {which}
     ORDER BY {order} LIMIT %(seen)s) AS p
 ORDER BY {order} LIMIT %(seen)s
"""
LONGEST = SEE.format(which="", order="p.waiting DESC")
LEFT = SEE.format(which="AND p.since_at < clock_timestamp() - %(left_s)s * interval '1 second'", order="p.since_at")
FITTING = SEE.format(
    which="""AND p.object = %(object)s AND p.operation = %(operation)s
           AND p.waiting <= %(room)s AND NOT p.key = ANY (%(taken)s)
           AND coalesce((SELECT l.most_rows FROM crmsync_lane AS l WHERE l.key = p.lane), %(most)s) >= %(whole)s""",
    order="p.waiting DESC",
)
SHUT = "UPDATE crmsync_pile SET due_at = clock_timestamp() + %s * interval '1 millisecond' WHERE key = ANY (%s)"


def see(statement: str, **values: Any) -> list[Picked]:
    """Open piles, in the order of the statement. Those whose parent is yet to be created are shut for a moment, so that
    they are not looked at again and again: each round for longer than the last, so that however many they are, the
    first are still shut when the last have been looked at."""
    shut_for = 0
    with connection.cursor() as cursor:
        while True:
            cursor.execute(statement, {"most": MOST_ROWS, "seen": SEEN, "left_s": LEFT_S, **values})
            rows = cursor.fetchall()
            if shut := [row[0] for row in rows if row[-1]]:
                shut_for = min(shut_for + SHUT_MS, SHUT_MOST_MS)
                cursor.execute(SHUT, [shut_for, shut])
            found = [Picked(*row[:-1]) for row in rows if not row[-1]]
            if found or not shut:
                return found


def pick(*, limit_of: Limit, dice: float, crew: int = 1) -> tuple[list[Picked], int]:
    """The piles of the next chunk, and how many rows it may have: the longest pile, then the longest that still fit.

    `crew`: among how many workers what is left is shared out. Now and then (`dice`, 0 to 1) a pile that was left for
    long goes first, so that none waits for ever. Call inside a transaction that has the turn.
    """
    batches = with_piles()
    seen = [replace(pile, was_left=True) for pile in see(LEFT, open=batches)[:1]] if dice < LEFT_SHARE else []
    seen = seen or see(LONGEST, open=batches)
    if not seen:
        return [], 0
    leader = seen[0]
    limit = shared_out(limit_of(leader.kind, 0, leader.most_rows), leader=leader, seen=seen, crew=crew)
    picked, room, whole = [leader], limit - leader.waiting, min(limit, MOST_ROWS)
    fitting = [pile for pile in seen[1:] if pile.kind == leader.kind and pile.most_rows >= whole]
    kind = {"object": leader.object, "operation": leader.operation}
    while True:
        for pile in fitting:
            if pile.waiting <= room:
                picked.append(pile)
                room -= pile.waiting
        if room <= 0:
            return picked, limit
        taken = [pile.key for pile in picked]
        fitting = see(FITTING, open=batches, **kind, room=room, taken=taken, whole=whole)  # the first of them fits
        if not fitting:
            return picked, limit


def shared_out(limit: int, *, leader: Picked, seen: Sequence[Picked], crew: int) -> int:
    """The rows of a chunk where less is left than keeps each of the crew at work: an equal share of what is left and of
    what the others have under way, half a chunk each on average. So all are done at about the same time.

    As much of the longest pile as fits, at least, whose chunks can only follow one another. Jobs are not shared out:
    the org runs the rows of each side by side.
    """
    under_way = (crew - 1) * limit // 2
    enough = crew * limit - under_way
    if crew == 1 or limit > MOST_ROWS or sum(pile.waiting for pile in seen if pile.kind == leader.kind) >= enough:
        return limit
    share = -(-(due_of(*leader.kind, most=enough) + under_way) // crew)
    return min(limit, max(share, leader.waiting))


def read_piles(picked: Sequence[Picked], *, most: int) -> list[Candidate]:
    """The messages of these piles, pile by pile, each from its oldest on; `most` of them at most.

    Those of a mass update that was paused this moment, too: they stay in their pile, and whoever claims leaves them.
    """
    places = {pile.key: place for place, pile in enumerate(picked)}
    rows = OutboxMessage.objects.ripe().newest().filter(pile__in=list(places))
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
    """Fewer messages that may go on wait in piles than so many."""
    return sum_of(Pile.objects.filter(batch__in=with_piles()), most=rows) < rows


LONGEST_OPEN = f"""
SELECT waiting FROM ({LONGEST}) AS p(key, object, operation, lane, waiting, most_rows, awaits_parent)
 WHERE NOT awaits_parent
"""


def any_chain_is_open() -> bool:
    """The longest open pile has more than a chunk: whoever claims next takes of it."""
    with connection.cursor() as cursor:
        cursor.execute(LONGEST_OPEN, {"most": MOST_ROWS, "seen": 1, "open": with_piles()})
        return any(waiting > MOST_ROWS for (waiting,) in cursor.fetchall())


def due_of(object: str, operation: str, *, most: int) -> int:
    """How many mass messages of the object and operation wait in piles; counted up to about `most`."""
    return sum_of(Pile.objects.filter(batch__in=with_piles(), object=object, operation=operation), most=most)


def sum_of(piles: QuerySet[Pile], *, most: int) -> int:
    """What waits in the longest of the piles, no more of them than `most`: that is all, or at least `most`."""
    longest = piles.filter(waiting__gt=0).order_by("-waiting").values("waiting")[:most]
    return longest.aggregate(sum=Sum("waiting"))["sum"] or 0
