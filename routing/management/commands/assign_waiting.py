"""Give out leads that wait: all of a team, of every team, or exactly those asked for, before older ones."""

import getpass
import json
import sys
from argparse import ArgumentParser
from collections import defaultdict
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from routing.models import Lead, Team
from routing.runs import noted
from routing.sweep import Given, assign_asked_for, sweep_team, teams_with_waiting

USAGE, PARTIAL = 2, 3


class Command(BaseCommand):
    help = (
        "Give out waiting leads now. Exit codes: 0 done, 1 failed, 2 usage, 3 some of the leads asked for wait on. "
        "May take up to 20 seconds a team; what is left then is given out by the queue. The run it tells of can be "
        "undone (undo_run)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--team", metavar="NAME|ID", help="only this team")
        parser.add_argument("--lead", metavar="ID", type=int, nargs="+", help="exactly these leads, before older ones")
        parser.add_argument("--by", metavar="NAME", default="", help="who asks, for the record; by default the user")
        parser.add_argument("--dry-run", action="store_true", help="do the same and roll it back")
        parser.add_argument("--json", action="store_true", help="figures as one JSON object in the last line")

    def handle(self, *args: Any, **options: Any) -> None:
        team = _team(options["team"]) if options["team"] else None
        try:
            if options["dry_run"]:
                figures = self.give_out(options["lead"], team, dry_run=True)
            else:
                with noted(by=options["by"].strip() or getpass.getuser(), team=team) as run:
                    figures = self.give_out(options["lead"], team, run_id=run.pk)
                figures["run"] = run.pk  # None where it gave out nothing
        except DatabaseError as fault:
            raise CommandError(
                f"The database refused: {type(fault.__cause__ or fault).__name__}. Run it again."
            ) from fault
        figures = {"command": "assign_waiting", "dry_run": options["dry_run"], "run": None, **figures}
        if options["json"]:
            self.stdout.write(json.dumps(figures))
        else:
            words = ", ".join(f"{name} {figures[name]}" for name in ("taken", "waiting", "busy", "set_aside", "gone"))
            self.stdout.write(f"{'Would be: ' if options['dry_run'] else ''}{words}.")
            if figures["run"]:
                self.stderr.write(f"`undo_run {figures['run']}` undoes it.")
        if options["lead"] and figures["waiting"]:
            sys.exit(PARTIAL)

    def give_out(
        self, asked: list[int] | None, team: Team | None, *, dry_run: bool = False, run_id: int | None = None
    ) -> dict[str, Any]:
        if asked:
            return self.asked_for(sorted(set(asked)), team, dry_run=dry_run, run_id=run_id)
        teams = [team.pk] if team else list(teams_with_waiting())
        return self.rehearse(teams) if dry_run else self.sweep(teams, run_id)

    def sweep(self, team_ids: list[int], run_id: int | None) -> dict[str, Any]:
        taken = busy = set_aside = 0
        for team_id in team_ids:
            swept = sweep_team(team_id=team_id, run_id=run_id)
            self.stderr.write(f"team {team_id}: {swept.taken} taken")
            taken, busy, set_aside = taken + swept.taken, busy + swept.busy, set_aside + swept.set_aside
        left = Lead.objects.waiting().filter(team_id__in=team_ids).count()
        return {"taken": taken, "waiting": left, "busy": busy, "set_aside": set_aside, "gone": 0, "given": {}}

    def asked_for(self, lead_ids: list[int], team: Team | None, *, dry_run: bool, run_id: int | None) -> dict[str, Any]:
        teams = dict(Lead.objects.filter(pk__in=lead_ids).values_list("pk", "team_id"))
        for lead_id in lead_ids:
            if lead_id not in teams or (team and teams[lead_id] != team.pk):
                raise CommandError(f"There is no lead {lead_id}{f' of team {team}' if team else ''}.", returncode=USAGE)
        by_team = defaultdict(list)
        for lead_id in lead_ids:
            by_team[teams[lead_id]].append(lead_id)
        return self.give(by_team, dry_run=dry_run, run_id=run_id)

    def rehearse(self, team_ids: list[int]) -> dict[str, Any]:
        """The first leads of each team as a sweep would take them, rolled back."""
        waiting = Lead.objects.waiting().order_by("pk")
        heads = {pk: waiting.filter(team_id=pk).values_list("pk", flat=True)[: settings.SWEEP_MOST] for pk in team_ids}
        return self.give({team_id: list(head) for team_id, head in heads.items()}, dry_run=True)

    def give(self, by_team: dict[int, list[int]], *, dry_run: bool, run_id: int | None = None) -> dict[str, Any]:
        taken = left = asked = 0
        reps: dict[int, int] = {}
        for team_id, lead_ids in sorted(by_team.items()):
            given: Given = assign_asked_for(team_id=team_id, lead_ids=lead_ids, dry_run=dry_run, run_id=run_id)
            self.stderr.write(f"team {team_id}: {given.taken} of {len(lead_ids)} {'would be ' if dry_run else ''}taken")
            taken, left, asked = taken + given.taken, left + given.left, asked + len(lead_ids)
            reps |= given.reps
        gone = asked - taken - left
        return {"taken": taken, "waiting": left, "busy": 0, "set_aside": 0, "gone": gone, "given": reps}


def _team(name: str) -> Team:
    team = Team.objects.filter(name__iexact=name).first()
    if team is None and name.isdecimal():
        team = Team.objects.filter(pk=min(int(name), 2**63 - 1)).first()
    if team is None:
        raise CommandError(f"There is no team {name}.", returncode=USAGE)
    if team.retired_at:
        raise CommandError(f"Team {team} is retired: nobody takes its leads.", returncode=USAGE)
    return team
