"""What a mass update will take: calls, the parents that make them wait for each other, and about how long.

Rows of one parent follow one another, for they lock it; whole parents share a call. So it takes as long as the calls
take with the workers there are, or as long as the busiest parent, whichever is longer.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from crmsync.backoff import MOST_ROWS

HOTTEST = 10


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a call takes: so long in itself, and so much more for each row, in seconds.

    The default is a stated guess until Rota has sent calls of its own: 350 ms and 8 ms, what a trigger of moderate
    weight costs.
    """

    call_s: float = 0.35
    row_s: float = 0.008
    measured: bool = False

    def of(self, *, calls: int, rows: int) -> float:
        return calls * self.call_s + rows * self.row_s


@dataclass(frozen=True, slots=True)
class Hot:
    """A parent with many rows: they go one call after another."""

    parent: str
    rows: int
    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Plan:
    """`seconds`: about how long it takes with `workers` at once; `alone_s`: what the hottest parent takes at least."""

    rows: int
    calls: int
    parents: int
    workers: int
    seconds: float
    alone_s: float
    measured: bool
    hottest: tuple[Hot, ...]

    def as_counts(self) -> dict[str, Any]:
        return asdict(self)


def plan(
    groups: Mapping[tuple[str, ...], int], *, pace: Pace, workers: int, labels: Mapping[str, str] | None = None
) -> Plan:
    """The plan for so many rows under these lock keys; `labels` are the keys in words."""
    labels = labels or {}
    rows = sum(groups.values())
    calls = calls_for(groups)
    of_parent: Counter[str] = Counter()
    calls_of: Counter[str] = Counter()
    for keys, count in groups.items():
        for key in keys:
            of_parent[key] += count
            calls_of[key] += math.ceil(count / MOST_ROWS)
    hottest = tuple(
        Hot(
            labels.get(key, key),
            count,
            calls_of[key],
            pace.of(calls=calls_of[key], rows=count),
        )
        for key, count in of_parent.most_common(HOTTEST)
    )
    alone_s = max((hot.seconds for hot in hottest), default=0.0)
    shared_s = pace.of(calls=calls, rows=rows) / max(1, min(workers, calls))
    return Plan(
        rows=rows,
        calls=calls,
        parents=len(of_parent),
        workers=workers,
        seconds=round(max(alone_s, shared_s), 1),
        alone_s=round(alone_s, 1),
        measured=pace.measured,
        hottest=hottest,
    )


def calls_for(groups: Mapping[tuple[str, ...], int]) -> int:
    """Full calls of one parent each, and the rest of every parent packed whole, the largest first."""
    calls = 0
    rest: Counter[int] = Counter()
    for keys, count in groups.items():
        full, left = divmod(count, MOST_ROWS)
        calls += full
        if not keys and left:  # rows without a parent go where there is room
            rest[1] += left
        elif left:
            rest[left] += 1
    room: Counter[int] = Counter()
    for size in sorted(rest, reverse=True):
        for _ in range(rest[size] if size > 1 else 0):
            best = min((space for space, many in room.items() if space >= size and many), default=0)
            if best:
                room[best] -= 1
            else:
                calls += 1
                best = MOST_ROWS
            room[best - size] += 1
    singles = rest[1] - sum(space * many for space, many in room.items())
    return calls + max(0, math.ceil(singles / MOST_ROWS))
