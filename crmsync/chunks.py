"""Which waiting changes go to the CRM together: of one object and one operation, whole parents, nobody else's lanes.

Pure: it looks at what was read and locks nothing. What it proposes is claimed afterwards, or not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from crmsync.backoff import MOST_ROWS


@dataclass(frozen=True, slots=True)
class Candidate:
    """A due message as it was read, with the lanes it needs: the record's own and its parents'."""

    message_id: int
    record_id: int
    object: str
    operation: str
    external_id: str
    version: int
    priority: int
    attempts: int
    fields: Mapping[str, Any]
    parents: Sequence[Mapping[str, str]]
    creating: bool
    record_key: str
    parent_keys: tuple[str, ...]
    pile: str | None = None
    passed_at: datetime | None = None
    crm_id: str = ""  # the org's own, once it told it
    lock_failures: int = 0  # attempts charged to it, if the last of them met a lock
    looked_up: bool = True  # the org was asked whether it has the person already
    found_owner: str = ""  # who owned the record there before Rota first wrote it
    seen: tuple[str, str] = ("", "")  # from which versions of the message and of its record this was read
    keys: frozenset[str] = field(init=False, repr=False)  # all its lanes; asked for often

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", frozenset((self.record_key, *self.parent_keys)))

    @property
    def kind(self) -> tuple[str, str]:
        """What a request is of: one object, one operation."""
        return self.object, self.operation

    @property
    def adopts(self) -> bool:
        """Its first write goes to a record that the org had before, by the org's id."""
        return self.creating and bool(self.crm_id)

    @property
    def backoff_keys(self) -> tuple[str, ...]:
        """Where a failure is remembered: on the parents, which others need too; without parents on the record."""
        return self.parent_keys or (self.record_key,)

    @property
    def together(self) -> tuple[str, str, tuple[str, ...]]:
        """Rows with the same of this share all their parents, and stay in one chunk."""
        return self.object, self.operation, self.backoff_keys


@dataclass(frozen=True, slots=True)
class LaneView:
    """`most_rows`: what its last failures left of a chunk. `reserved_for`: the message that has waited so long for this
    lane that nobody else may take it."""

    free: bool
    most_rows: int = MOST_ROWS
    reserved_for: int | None = None


Lanes = Mapping[str, LaneView]
# How many rows a chunk of this kind may have, whose worst row has met so many locks in a row and whose worst lane takes
# so many rows.
Limit = Callable[[tuple[str, str], int, int], int]


def by_collections(kind: tuple[str, str], lock_failures: int, most_rows: int) -> int:
    """The limit of whoever does not ask for another road: one sObject Collections request."""
    return min(MOST_ROWS, most_rows)


def open_to(group: Sequence[Candidate], lanes: Lanes) -> bool:
    """Whether a group of rows with the same parents may take the lanes that these need."""
    ids = {candidate.message_id for candidate in group}
    return all(is_open(lanes[key], ids) for key in group[0].parent_keys if key in lanes)


def is_open(lane: LaneView, ids: set[int]) -> bool:
    return lane.free and (lane.reserved_for is None or lane.reserved_for in ids)


def choose(candidates: Sequence[Candidate], lanes: Lanes, limit_of: Limit = by_collections) -> list[Candidate]:
    """The chunk that the first sendable candidate leads, in the order in which it should be sent.

    Rows of one parent stay together unless they are more than a chunk; then the chunk is of that parent alone. The
    rest is filled with whole parents, in their order, as far as each fits. A lane that failed lately makes every chunk
    it is part of smaller. A lane that does not exist yet is free.
    """
    groups: dict[tuple[str, str, tuple[str, ...]], list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.together, []).append(candidate)
    chosen: list[Candidate] = []
    limit = MOST_ROWS
    for whole in groups.values():
        if chosen and (whole[0].kind != chosen[0].kind or len(chosen) >= limit):
            continue
        if not open_to(whole, lanes):
            continue
        group = [
            row for row in whole if row.record_key not in lanes or is_open(lanes[row.record_key], {row.message_id})
        ]
        if not group:
            continue
        own_limit = limit_for(group, lanes, limit_of)
        if not chosen:
            chosen, limit = group[:own_limit], own_limit
        elif len(chosen) + len(group) <= min(limit, own_limit):
            chosen += group
            limit = min(limit, own_limit)
    return sorted(chosen, key=lambda candidate: (candidate.parent_keys, candidate.external_id))


def limit_for(group: Sequence[Candidate], lanes: Lanes, limit_of: Limit) -> int:
    """The most rows of a chunk that has these among its rows."""
    most = min((lanes[key].most_rows for row in group for key in row.keys if key in lanes), default=MOST_ROWS)
    return max(1, limit_of(group[0].kind, max(row.lock_failures for row in group), most))
