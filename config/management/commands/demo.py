"""The main job in front of your eyes: thirty leads in the same moment, five reps, and the CRM half a second later."""

import json
import subprocess
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.crm_users import match_crm_users
from config.demo.leads import BadLeadsFile, built_in, from_file
from config.demo.run import Result, run
from config.demo.seed import SOURCE
from config.demo.stage import StageFailed, stage
from config.supervise import PROJECT
from crmsync.paths import given_path
from routing.models import InboundSource


class Command(BaseCommand):
    help = (
        "Send thirty leads at once to a team of five reps, three of them twice, wait until the CRM has them and count. "
        "Without --against a whole Rota is started on free ports with a throw-away database. About 20 seconds. "
        "Exit 1 unless every lead has exactly one rep, in fair turn, and the CRM shows it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")
        parser.add_argument(
            "--leads", type=given_path, metavar="FILE.jsonl", help="one JSON lead a line; `id`: the event id"
        )
        parser.add_argument("--over", type=float, default=0, metavar="SECONDS", help="spread the leads over this time")
        parser.add_argument("--against", metavar="URL", help="a running Rota that uses this database")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            events = from_file(options["leads"]) if options["leads"] else built_in()
        except BadLeadsFile as fault:
            self.stderr.write(f"error: {fault}")
            raise SystemExit(2) from None
        if not options["against"]:
            raise SystemExit(self._on_a_stage(options))
        for email in match_crm_users().missing:
            self.stderr.write(f"No active CRM user has the address {email}.")
        source = InboundSource.objects.get(slug=SOURCE)
        self._say(f"{len(events)} leads, three of them twice, over {options['over']:g} s ...")
        result = run(url=options["against"], source=source, events=events, over_s=options["over"])
        self.stdout.write(json.dumps(result.as_dict()) if options["json"] else as_table(result))
        if not result.ok:
            raise SystemExit(1)

    def _on_a_stage(self, options: dict[str, Any]) -> int:
        words = ["demo", "--over", str(options["over"])]
        words += ["--json"] if options["json"] else []
        words += ["--leads", str(options["leads"].absolute())] if options["leads"] else []
        try:
            with stage(say=self._say) as (address, environment):
                self._say("the sandbox org takes 20 ms a transaction and 1 ms a row.")
                command = [sys.executable, "manage.py", *words, "--against", address]
                return subprocess.run(command, cwd=PROJECT, env=environment).returncode
        except StageFailed as fault:
            raise CommandError(str(fault)) from None

    def _say(self, line: str) -> None:
        self.stderr.write(f"demo: {line}")
        self.stderr.flush()


def as_table(result: Result) -> str:
    """The figures for people."""
    rows = []
    for name, value in result.as_dict().items():
        if isinstance(value, dict):
            value = "  ".join(f"{key} {number}" for key, number in value.items())
        rows.append(f"  {name:<16} {value}")
    return "\n".join(rows)
