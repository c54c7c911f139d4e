"""Look at what turns have written, and ask for turns in one line."""

from routing.models import Assignment, Lead, Membership, Team
from routing.turns import take_turns
from tests.make import make_lead


def give(team: Team, count: int, **fields: object) -> list[int]:
    """Let `count` new leads take their turns, and return the memberships they went to, in order of the turns."""
    new = [make_lead(team=team, **fields).pk for _ in range(count)]
    take_turns(team_id=team.pk, most=1_000)
    return taken(team, new)


def taken(team: Team, leads: list[int] | None = None) -> list[int]:
    """The memberships in order of the team's turns; of these leads only, if any are named."""
    found = Assignment.objects.filter(team=team)
    found = found.filter(lead__in=leads) if leads is not None else found
    return list(found.order_by("turn").values_list("membership_id", flat=True))


def members_of(team: Team) -> list[int]:
    """The memberships of a team by id, in which ties are broken."""
    return list(Membership.objects.filter(team=team).order_by("pk").values_list("pk", flat=True))


def waiting(team: Team) -> list[int]:
    """The leads of a team that wait, oldest first."""
    return list(Lead.objects.waiting().filter(team=team).order_by("pk").values_list("pk", flat=True))
