"""Whose turn it is: the rule of the largest lag, in Python, number for number as take_turns.sql does it.

Pure. Simulations rehearse turns with it and reports add up shares with it; leads are given out by the SQL only. A test
compares the two.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SCALE = 10**12
"""One lead in units of lag; routing.models.team.SCALE is the same number."""
ROUNDING = 10**6
"""Below it a lag is what rounding left, not a lead owed; routing.models.team.ROUNDING is the same number."""


@dataclass
class Place:
    """A member's place in a team. `lag` is in units of SCALE; `last` is the number of the member's last turn."""

    id: int
    weight: int
    lag: int = 0
    last: int = 0


@dataclass(frozen=True)
class Taken:
    """A turn: who won it, and the winner's lag before and after."""

    winner: int
    before: int
    after: int


def due(*, weights: Mapping[int, int]) -> dict[int, int]:
    """Each candidate's share of one lead, in units of SCALE, rounded down; `weights` by member."""
    total = sum(weights.values())
    return {member: SCALE * weight // total for member, weight in weights.items()}


def moved(*, weights: Mapping[int, int], winner: int) -> dict[int, int]:
    """By how much a turn with these candidates moves each one's lag. The sum is nought."""
    shares = due(weights=weights)
    given = sum(shares.values())
    return {member: share - (given if member == winner else 0) for member, share in shares.items()}


def take(*, candidates: Sequence[Place], turn: int, sole: int | None = None, counts: bool = False) -> Taken:
    """Take one turn and move the lags. There is at least one candidate.

    `sole` takes the lead past the others: nobody's lag moves then, unless the team lets it count.
    """
    if sole is not None and not counts:
        candidates = [place for place in candidates if place.id == sole]
    shares = due(weights={place.id: place.weight for place in candidates})
    for place in candidates:
        place.lag += shares[place.id]
    winner = next(place for place in candidates if place.id == sole) if sole is not None else first(candidates)
    before = winner.lag - shares[winner.id]
    winner.lag -= sum(shares.values())
    winner.last = turn
    return Taken(winner.id, before, winner.lag)


def first(candidates: Iterable[Place]) -> Place:
    """Among those owed something the earliest finish, (SCALE - lag) / weight; else the largest lag; then the oldest
    last turn, then id.
    """
    in_order = sorted(candidates, key=lambda place: place.id)
    best = in_order[0]
    for place in in_order[1:]:
        if (place.lag > ROUNDING) != (best.lag > ROUNDING):
            better = place.lag > ROUNDING
        elif place.lag > ROUNDING:
            one, two = (SCALE - place.lag) * best.weight, (SCALE - best.lag) * place.weight
            better = one < two or (one == two and place.last < best.last)
        else:
            better = place.lag > best.lag or (place.lag == best.lag and place.last < best.last)
        if better:
            best = place
    return best
