"""What a person does to leads by hand: assign them now, close them, put them back in the row.

Each is a flow: it opens its own transactions and asks for the sweep that follows from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import DatabaseError, transaction

from crmsync.nudge import ask
from routing import leads, turns
from routing.models import Lead
from routing.sweep import assign_asked_for


@dataclass(frozen=True)
class Given:
    """Leads given to somebody, and teams whose turn failed or whose turnstile was busy."""

    taken: int
    failed_teams: tuple[int, ...]


def assign_now(*, lead_ids: Sequence[int]) -> Given:
    """Take the turns of these waiting leads now, team by team, before older leads of the same team."""
    taken, failed = 0, []
    by_team: dict[int, list[int]] = {}
    for lead_id, team_id in Lead.objects.waiting().filter(pk__in=lead_ids).order_by("pk").values_list("pk", "team_id"):
        by_team.setdefault(team_id, []).append(lead_id)
    for team_id, ids in sorted(by_team.items()):
        try:
            taken += assign_asked_for(team_id=team_id, lead_ids=ids)[0]
        except DatabaseError:
            failed.append(team_id)
    return Given(taken, tuple(failed))


def close_now(*, lead_ids: Sequence[int]) -> int:
    """Close those of the leads that are open. Return how many; a rep with an open-leads cap has room again."""
    with transaction.atomic(durable=True):
        return leads.close(lead_ids=lead_ids)


def put_back_now(*, lead_ids: Sequence[int]) -> int:
    """Let leads that were set aside wait for a turn again. Return how many."""
    back = turns.put_back(lead_ids=lead_ids)
    for team_id in Lead.objects.filter(pk__in=lead_ids).order_by().values_list("team_id", flat=True).distinct():
        ask("routing.tasks.sweep_team", team_id)
    return back
