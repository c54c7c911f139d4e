"""Send the campaign mail that is due, once, from the command line or cron."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from crmsync.arguments import positive, whole
from outreach.checks import CHECKS
from outreach.flows import sender
from outreach.management.arguments import job
from outreach.models import Message

BATCH_MOST = 1_000
"""As for SEND_BATCH."""


class Command(BaseCommand):
    requires_system_checks = [CHECKS]  # the others load the admin, which takes longer than many a run

    help = (
        "Send the campaign mail that is due, for SEND_BUDGET_S seconds at most, and say what was done. Exit 0 also "
        "when another run holds the job lock, which is said in a line; exit 3 when the relay or a switch stopped it, "
        "exit 2 for wrong usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--job", type=job, default=sender.JOB, help="run beside senders of other names; claims are disjoint"
        )
        parser.add_argument("--batch", type=whole(most=BATCH_MOST), help="messages claimed at once")
        parser.add_argument("--budget", type=positive, metavar="SECONDS", help="begin nothing after that")
        parser.add_argument("--dry-run", action="store_true", help="only count what is due")
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            due = Message.objects.due().filter(campaign__status="running").count()
            self.stdout.write(json.dumps({"due": due}) if options["json"] else f"{due} mails are due.")
            return
        done = sender.send_due(
            worker=sender.worker_name(), job=options["job"], batch=options["batch"], budget_s=options["budget"]
        )
        figures = {key: value for key, value in asdict(done).items() if not key.startswith("_")}
        if options["json"]:
            self.stdout.write(json.dumps(figures))
        else:
            self.stdout.write(", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in figures.items() if value))
        if done.stopped not in ("", "time", sender.HELD_BY_ANOTHER):
            raise SystemExit(3)
