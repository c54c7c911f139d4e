"""What the task queue does for routing: look at the tables and do what is due. Any of these may run twice or never."""

from dataclasses import asdict

from django.conf import settings
from django.db import transaction

from routing import fetching, hours, import_files, imports, pruning, service_levels, silence
from routing import sweep as sweeping
from routing.errors import ImportTaken


def sweep() -> dict[str, int]:
    """Give out what waits in any team, be there when the next shifts start, and go on with imports left behind."""
    sweeping.ask_at_shift_starts()
    imports.ask_for_unattended()
    return asdict(sweeping.sweep_teams())


def sweep_team(team_id: int) -> dict[str, int]:
    """Give out what waits in one team."""
    return asdict(sweeping.sweep_team(team_id=team_id))


def keep_service_levels() -> dict[str, int]:
    """Find the leads that were not worked in time, and give them to others where their team wants that."""
    return asdict(service_levels.keep())


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


def prune() -> dict[str, int]:
    """Forget old answers of senders' APIs, old events that made no lead, and old files of leads."""
    return {
        "answers": pruning.prune_answers(days=settings.ANSWER_KEPT_DAYS),
        "events": pruning.prune_stuck(days=settings.REFUSED_KEPT_DAYS),
        "files": import_files.prune(days=settings.IMPORT_KEPT_DAYS),
    }


def run_import(import_id: int) -> str:
    """Go on with an import for a while; nothing to do where somebody else does, or it was paused or cancelled."""
    try:
        return imports.run(import_id=import_id).status
    except ImportTaken:
        return "taken"
