"""What the task queue does for routing: look at the tables and do what is due. Any of these may run twice or never."""

from dataclasses import asdict

from django.conf import settings
from django.db import transaction

from routing import fetching, hours, pruning, silence
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


def fetch() -> dict[str, int]:
    """Fetch the leads behind events that came as ids only."""
    left_over = fetching.land_left_over()
    return {**asdict(fetching.fetch_due()), "left_over": left_over}


def watch_sources() -> dict[str, int]:
    """Notice which sources have fallen silent."""
    return asdict(silence.watch())


def prune_bodies() -> dict[str, int]:
    """Forget the bodies of old deliveries."""
    return {"pruned": pruning.prune_bodies(days=settings.BODY_KEPT_DAYS)}
