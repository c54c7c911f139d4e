"""Tell reps of their new leads by mail, once, from the command line or cron."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from outreach.checks import CHECKS
from outreach.flows import notices, sender
from outreach.management.arguments import job


class Command(BaseCommand):
    requires_system_checks = [CHECKS]  # the others load the admin, which takes longer than many a run

    help = (
        "Tell every rep of the leads they were given since the last run, for SEND_BUDGET_S seconds at most. Exit 0 "
        "also when another run holds the job lock; exit 3 when the relay, a switch or a missing setting stopped it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--job", type=job, default=notices.JOB, help="run beside senders of other names")
        parser.add_argument("--dry-run", action="store_true", help="only count the reps who would be written to")
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            figures: dict[str, Any] = {"due": notices.waiting_to_be_told()}
        else:
            figures = asdict(notices.send_notices(worker=sender.worker_name(), job=options["job"]))
        if options["json"]:
            self.stdout.write(json.dumps(figures))
        else:
            shown = ", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in figures.items() if value)
            self.stdout.write(shown or "Nobody has anything to be told.")
        if figures.get("stopped", "") not in ("", "time", sender.HELD_BY_ANOTHER):
            raise SystemExit(3)
