"""Which waiting changes go to the CRM together: of one object and one operation, whole parents, nobody else's lanes.

Pure: it looks at what was read and locks nothing. What it proposes is claimed afterwards, or not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crmsync.backoff import MOST_HALVINGS, MOST_ROWS


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

    @property
    def keys(self) -> frozenset[str]:
        return frozenset((self.record_key, *self.parent_keys))

    @property
    def kind(self) -> tuple[str, str]:
        """What a request is of: one object, one operation."""
        return self.object, self.operation

    @property
    def backoff_keys(self) -> tuple[str, ...]:
        """Where a failure is remembered: on the parents, which others need too; without parents on the record."""
        return self.parent_keys or (self.record_key,)


@dataclass(frozen=True, slots=True)
class LaneView:
    free: bool
    failures: int


def choose(candidates: Sequence[Candidate], lanes: Mapping[str, LaneView]) -> list[Candidate]:
    """The chunk that the oldest sendable candidate leads, in the order in which it should be sent.

    Rows of one parent stay together unless they are more than a chunk; then the chunk is of that parent alone. A lane
    that has failed halves every chunk it is part of. A lane that does not exist yet is free.
    """
    groups: dict[tuple[str, str, tuple[str, ...]], list[Candidate]] = {}
    for candidate in candidates:
        if all(lanes[key].free for key in candidate.keys if key in lanes):
            keys = candidate.parent_keys or (candidate.record_key,)
            together = (candidate.object, candidate.operation, keys)
            groups.setdefault(together, []).append(candidate)
    chosen: list[Candidate] = []
    limit = MOST_ROWS
    for group in groups.values():
        own_limit = min(row_limit(candidate, lanes) for candidate in group)
        if not chosen:
            chosen, limit = group[:own_limit], own_limit
        elif group[0].kind == chosen[0].kind and len(chosen) + len(group) <= min(limit, own_limit):
            chosen += group
            limit = min(limit, own_limit)
    return sorted(chosen, key=lambda candidate: (candidate.parent_keys, candidate.external_id))


def row_limit(candidate: Candidate, lanes: Mapping[str, LaneView]) -> int:
    failures = max((lanes[key].failures for key in candidate.keys if key in lanes), default=0)
    return max(1, MOST_ROWS >> min(failures, MOST_HALVINGS))
