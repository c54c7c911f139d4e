"""The source that a team's imported leads come from, where nobody names another one."""

from routing.models import InboundSource, Team


def source_for_team(*, team: Team) -> InboundSource:
    """The team's own source of imports. It has no webhook: its address is switched off, its secret known to nobody."""
    return InboundSource.objects.get_or_create(
        slug=f"imports-{team.pk}", defaults={"name": f"Imports for {team.name}"[:100], "team": team, "active": False}
    )[0]
