"""Give out what is still waiting: after a busy turnstile, when hours start, when a cap frees, after a crash.

Runs every minute and is asked for at once where leads were left. Each call does a bounded amount and says what it did.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from crmsync.nudge import ask, nudge
from routing import hours
from routing.errors import TurnFault
from routing.models import Assignment, Lead, Team
from routing.turns import take_singly, take_turns, take_turns_of

logger = logging.getLogger(__name__)

BUDGET_S = 20
"""How long one sweep goes on before it asks for the next; below q2's task timeout."""
SOON = timedelta(seconds=90)
"""A minute, and the half one by which q2's clock may be late."""


@dataclass
class Swept:
    """Turns taken, teams whose turnstile was busy, leads set aside because their turn fails, teams not swept because
    the database failed.
    """

    taken: int = 0
    busy: int = 0
    set_aside: int = 0
    failed: int = 0

    def __iadd__(self, other: "Swept") -> "Swept":
        self.taken += other.taken
        self.busy += other.busy
        self.set_aside += other.set_aside
        self.failed += other.failed
        return self


def sweep_teams() -> Swept:
    """Sweep every team that has waiting leads. What fails in one team keeps no other from its turns."""
    swept = Swept()
    for team_id in teams_with_waiting():
        try:
            swept += sweep_team(team_id=team_id)
        except DatabaseError as fault:
            logger.error("sweep failed team=%s fault=%s", team_id, type(fault.__cause__ or fault).__name__)
            swept.failed += 1
    return swept


def teams_with_waiting() -> Iterator[int]:
    """The teams in service that have waiting leads, one after the other, each looked at when its turn comes."""
    for team_id in Team.objects.filter(retired_at=None).order_by("pk").values_list("pk", flat=True):
        if Lead.objects.waiting().filter(team_id=team_id).exists():
            yield team_id


def sweep_team(*, team_id: int, run_id: int | None = None) -> Swept:
    """Take a team's turns until nothing is left that somebody present may take, or the budget is spent. `run_id`: the
    run that they are of; what is left is given out outside it.
    """
    swept = Swept()
    until = time.monotonic() + BUDGET_S
    more = True
    while more and time.monotonic() < until:
        try:
            turn = take_turns(team_id=team_id, most=settings.SWEEP_MOST, wait_ms=1_000, run_id=run_id)
        except TurnFault:
            singly = take_singly(team_id=team_id, most=settings.SWEEP_MOST, run_id=run_id)
            swept += Swept(singly.taken, int(singly.busy), singly.set_aside)
            break
        swept.taken += turn.taken
        if turn.taken:
            nudge("crm")
        more = turn.more
        if turn.outcome == "busy":
            swept.busy += 1
            break
    if more:
        ask("routing.tasks.sweep_team", team_id)
    return swept


def ask_at_shift_starts(*, now: datetime | None = None) -> int:
    """Have a team swept at the very moment a member's shift starts within the next minute. Return how many were asked.

    The sweep of every minute would find the same leads, up to a minute later.
    """
    starts = hours.starting(now=now or timezone.now(), within=SOON)
    waiting = set(teams_with_waiting()) if starts else set()
    asked = [start for start in starts if start[0] in waiting]
    for team_id, at in asked:
        ask("routing.tasks.sweep_team", team_id, at=at)
    return len(asked)


class Given(NamedTuple):
    """How many of the leads asked for were taken, how many wait on, and the rep of each; others waited no longer."""

    taken: int
    left: int
    reps: dict[int, int]


def assign_asked_for(
    *, team_id: int, lead_ids: Sequence[int], dry_run: bool = False, run_id: int | None = None
) -> Given:
    """Give out these waiting leads of a team now, before older ones, as a person asked.

    Claims the leads first: skip_locked, for whoever else holds one of them settles it. Where the turnstile is busy
    they all stay waiting. A dry run does the same and rolls it back.
    """
    wanted = Lead.objects.waiting().filter(team_id=team_id, pk__in=lead_ids).order_by("pk")
    with transaction.atomic(durable=True):
        ids = list(wanted.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
        turn = take_turns_of(team_id=team_id, lead_ids=ids, run_id=run_id) if ids else None
        taken = turn.taken if turn else 0
        if dry_run:
            given = _given(taken, wanted, ids)
            transaction.set_rollback(True)
            return given
    if taken:
        nudge("crm")
    return _given(taken, wanted, ids)  # after the commit: the turnstile is held for nothing but the turns


def _given(taken: int, wanted: QuerySet[Lead], ids: Sequence[int]) -> Given:
    current = Assignment.objects.filter(lead_id__in=ids, ended_at=None)
    return Given(taken, wanted.count(), dict(current.values_list("lead_id", "membership__rep_id")))
