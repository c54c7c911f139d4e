"""What the task queue does for routing: look at the tables and do what is due. Any of these may run twice or never."""

from dataclasses import asdict

from django.db import transaction

from routing import hours
from routing import sweep as sweeping


def sweep() -> dict[str, int]:
    """Give out what waits in any team, and be there when the next shifts start."""
    sweeping.ask_at_shift_starts()
    return asdict(sweeping.sweep_teams())


def sweep_team(team_id: int) -> dict[str, int]:
    """Give out what waits in one team."""
    return asdict(sweeping.sweep_team(team_id=team_id))


def plan_shifts() -> dict[str, int]:
    """Plan every rep's shifts, sixty days ahead."""
    return asdict(hours.plan_all())


def plan_shifts_of(rep_id: int) -> None:
    """Plan one rep's shifts: a new member's first."""
    with transaction.atomic(durable=True):
        hours.plan_rep(rep_id=rep_id)
