"""Rehearse a period: the turns that teams would take of the leads that arrive, in memory, writing nothing.

Pure. It takes turns as take_turns.sql does, oldest waiting lead first, among the members who are inside a shift, under
their caps by day and week, and allowed. What it leaves out: caps on open leads, for it cannot know when leads close.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from routing.shares import Place, take
from routing.spans import Range, moment


@dataclass
class Worker:
    """A rep with the caps and shifts that hold over all teams. `shifts` in order, never overlapping."""

    id: int
    zone: ZoneInfo
    day_cap: int | None = None
    week_cap: int | None = None
    shifts: Sequence[Range] = ()
    had: dict[date, int] = field(default_factory=dict)

    def works(self, at: datetime) -> bool:
        index = bisect_right(self.shifts, at, key=lambda shift: shift[0])
        return index > 0 and at < self.shifts[index - 1][1]

    def has_room(self, at: datetime) -> bool:
        if self.day_cap is None and self.week_cap is None:
            return True
        today = at.astimezone(self.zone).date()
        if self.day_cap is not None and self.had.get(today, 0) >= self.day_cap:
            return False
        monday = today - timedelta(days=today.weekday())
        week = sum(self.had.get(monday + timedelta(days=number), 0) for number in range(7))
        return self.week_cap is None or week < self.week_cap

    def receive(self, at: datetime) -> None:
        if self.day_cap is not None or self.week_cap is not None:
            today = at.astimezone(self.zone).date()
            self.had[today] = self.had.get(today, 0) + 1


@dataclass
class Crew:
    """A team: its places, by member, and the worker of each."""

    id: int
    places: dict[int, Place]
    workers: dict[int, Worker]
    ignore_hours: bool = False
    direct_counts: bool = False
    turn: int = 0
    waiting: dict[frozenset[int] | None, deque[tuple[int, int | None]]] = field(
        default_factory=lambda: defaultdict(deque)
    )


@dataclass(frozen=True)
class Arrival:
    """A lead that arrives: its number in the order of arrival, and where it belongs."""

    number: int
    at: datetime
    team: int
    part: frozenset[int] | None = None
    preferred: int | None = None


Moment = tuple[datetime, int, int, Arrival | None]
"""When, what comes first at that time, the team or the lead's number, and the arrival if it is one."""


def rehearse(*, crews: Iterable[Crew], arrivals: Iterable[Arrival]) -> dict[int, int]:
    """The member who takes each lead, by the lead's number; leads that still wait at the end are left out."""
    by_team = {crew.id: crew for crew in crews}
    coming = sorted(arrivals, key=lambda arrival: (arrival.at, arrival.number))
    taken: dict[int, int] = {}
    if not coming:
        return taken
    # Besides an arrival, a team has somebody to take leads when a shift starts, and when a capped day is over.
    moments: list[Moment] = [(arrival.at, 1, arrival.number, arrival) for arrival in coming]
    moments += _changes(by_team.values(), coming[0].at, coming[-1].at)
    for at, _, team_id, arrival in sorted(moments, key=_order):
        if arrival is not None:
            crew = by_team.get(arrival.team)
            if crew is None:
                continue
            crew.waiting[arrival.part].append((arrival.number, arrival.preferred))
        else:
            crew = by_team[team_id]
        _drain(crew, at, taken)
    return taken


def _drain(crew: Crew, at: datetime, taken: dict[int, int]) -> None:
    """Take the turns of the crew's waiting leads that somebody present may take, oldest first."""
    while crew.waiting:
        present = {
            member
            for member, worker in crew.workers.items()
            if (crew.ignore_hours or worker.works(at)) and worker.has_room(at)
        }
        open_parts = [part for part in crew.waiting if (present if part is None else part & present)]
        if not open_parts:
            return
        part = min(open_parts, key=lambda each: crew.waiting[each][0][0])
        number, preferred = crew.waiting[part].popleft()
        if not crew.waiting[part]:
            del crew.waiting[part]
        candidates = present if part is None else part & present
        crew.turn += 1
        turn = take(
            candidates=[crew.places[member] for member in sorted(candidates)],
            turn=crew.turn,
            sole=preferred if preferred in candidates else None,
            counts=crew.direct_counts,
        )
        crew.workers[turn.winner].receive(at)
        taken[number] = turn.winner


def _changes(crews: Iterable[Crew], first: datetime, last: datetime) -> list[Moment]:
    """(moment, 0, team, None) for whatever may bring somebody to a team between the first and the last arrival."""
    found: set[Moment] = set()
    for crew in crews:
        for worker in crew.workers.values():
            if not crew.ignore_hours:
                found |= {(start, 0, crew.id, None) for start, _ in worker.shifts if first < start <= last}
            if worker.day_cap is not None or worker.week_cap is not None:
                day = first.astimezone(worker.zone).date()
                while (midnight := moment(day=day, zone=worker.zone)) <= last:
                    found.add((midnight, 0, crew.id, None))
                    day += timedelta(days=1)
    return list(found)


def _order(event: Moment) -> tuple[datetime, int, int]:
    return event[:3]
