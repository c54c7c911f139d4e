"""Mass messages are put into piles, a batch at a time.

All of this happens under `piles.take_turn`, one worker at a time.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from crmsync.lockkeys import record_key
from crmsync.models import OutboxMessage, Pile
from crmsync.moves.parents import parents_coming
from crmsync.moves.reading import lock_keys_of

PLANNED = 2_000  # messages planned in one transaction: about two tenths of a second

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
INSERT INTO crmsync_pile AS p (key, object, operation, lane, batch, waiting, first_id, waits_for)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::int[], %s::bigint[],
                     %s::bigint[])
ON CONFLICT (key) DO UPDATE
   SET waiting = p.waiting + excluded.waiting,
       first_id = CASE WHEN p.waiting > 0 THEN least(p.first_id, excluded.first_id) ELSE excluded.first_id END,
       waits_for = coalesce(excluded.waits_for, p.waits_for),
       due_at = CASE WHEN p.waiting > 0 THEN p.due_at ELSE clock_timestamp() END,
       since_at = CASE WHEN p.waiting > 0 THEN p.since_at ELSE clock_timestamp() END
"""


@dataclass(frozen=True, slots=True)
class Kin:
    """Unplanned messages of one mass update, object and operation with the same parents: rows of UNPLANNED."""

    batch: int
    object: str
    operation: str
    creating: bool
    parents: list[dict[str, str]]
    confirmed: list[dict[str, str]]
    ids: list[int]
    first_id: int


def read_unplanned(batches: Sequence[int | None]) -> list[Kin]:
    """A batch of messages that are in no pile yet, locked; of each of these mass updates its share, so that a small one
    waits for no large one. Call inside a transaction."""
    kins: list[Kin] = []
    room = PLANNED
    for place, batch_id in enumerate(batches[:room]):
        found = unplanned_of(batch_id, most=-(-room // (len(batches) - place)))
        room -= sum(len(kin.ids) for kin in found)
        kins += found
    return kins


def unplanned_of(batch_id: int | None, *, most: int) -> list[Kin]:
    unplanned = OutboxMessage.objects.ripe().filter(
        batch=batch_id, priority=OutboxMessage.Priority.MASS, pile__isnull=True
    )
    # `batch_id` in the order is what lets rows of no mass update be read by the index.
    locked = unplanned.order_by("batch_id", "pk").select_for_update(skip_locked=True, no_key=True, of=("self",))
    due, values = locked.values("id", "record_id", "operation", "parents")[:most].query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(UNPLANNED.format(due=due), values)
        return [
            Kin(
                batch_id or Pile.OF_NONE, object, operation, creating, json.loads(parents), json.loads(confirmed), ids,
                first_id,
            )
            for object, operation, creating, parents, confirmed, ids, first_id in cursor.fetchall()
        ]  # fmt: skip


def plan_some(batches: Sequence[int | None]) -> int:
    """Put a batch of due messages of these mass updates (None: of no mass update) into piles; how many. Call inside a
    transaction that has the turn."""
    kins = read_unplanned(batches)
    if not kins:
        return 0
    keys = lock_keys_of([(kin.object, kin.operation, kin.creating, kin.parents, kin.confirmed) for kin in kins])
    lanes = longest_lanes([(parent_keys, len(kin.ids)) for kin, parent_keys in zip(kins, keys, strict=True)])
    wanted = [(parent["object"], parent.get("external_id", "")) for kin in kins for parent in kin.parents]
    coming = {record_key(*name): message.record_id for name, message in parents_coming(wanted).items()}
    piles: dict[str, list[Kin]] = {}
    lane_of: dict[str, str] = {}
    for kin, lane in zip(kins, lanes, strict=True):
        key = f"{kin.object} {kin.operation}/{kin.batch}/{lane}"
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
                [piles[key][0].batch for key in names],
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
