"""Who was due what and who got what, team by team, over the last days or between two dates."""

import json
from datetime import date, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from routing.fairness import Report, report
from routing.models import Team
from routing.spans import moment


class Command(BaseCommand):
    help = (
        "The fairness report: for each member of a team what was due and received, credits, lag, how often and why "
        "they were passed over, and their longest run of turns. Days are days on the team's clock. "
        "It changes nothing. Seconds for a million turns. "
        "Exit 2 if there is no such team."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--team", help="the name of one team; otherwise every team in service")
        parser.add_argument("--days", type=int, default=30, help="how many days back from now (default 30)")
        parser.add_argument("--since", type=date.fromisoformat, metavar="YYYY-MM-DD", help="from this day on")
        parser.add_argument("--until", type=date.fromisoformat, metavar="YYYY-MM-DD", help="before this day")
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        teams = Team.objects.filter(retired_at=None).order_by("name")
        if options["team"]:
            teams = Team.objects.filter(name__iexact=options["team"])
            if not teams.exists():
                self.stderr.write(f"error: there is no team called {options['team']}.")
                raise SystemExit(2)
        reports = [self.of_team(team, options) for team in teams]
        if options["json"]:
            self.stdout.write(json.dumps({"teams": [each.as_dict() for each in reports]}))
        else:
            self.stdout.write("\n\n".join(as_table(each) for each in reports))

    def of_team(self, team: Team, options: dict[str, Any]) -> Report:
        first, last = options["since"], options["until"]
        until = moment(day=last, zone=team.tzinfo) if last else timezone.now()
        since = moment(day=first, zone=team.tzinfo) if first else until - timedelta(days=options["days"])
        return report(team=team, since=since, until=until)


def as_table(found: Report) -> str:
    lines = [
        f"{found.team}: {found.turns} turns from {found.since:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M} UTC",
        f"{'rep':24}{'weight':>7}{'due':>9}{'received':>9}{'direct':>7}{'credits':>8}{'lag':>7}{'run':>5}  passed over",
    ]
    for share in found.shares:
        passed = ", ".join(f"{count} {reason}" for reason, count in share.skipped.items())
        rep = share.rep if share.active else f"({share.rep})"
        lines.append(
            f"{rep[:23]:24}{share.weight:>7}{share.due:>9.2f}{share.received:>9}{share.direct:>7}"
            f"{share.credits:>8.2f}{share.lag:>7.2f}{share.longest_run:>5}  {passed}"
        )
    return "\n".join(lines)
