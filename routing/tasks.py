"""What the task queue does for routing: look at the tables and do what is due. Any of these may run twice or never."""

from dataclasses import asdict

from routing import sweep as sweeping


def sweep() -> dict[str, int]:
    """Give out what waits in any team."""
    return asdict(sweeping.sweep_teams())


def sweep_team(team_id: int) -> dict[str, int]:
    """Give out what waits in one team."""
    return asdict(sweeping.sweep_team(team_id=team_id))
