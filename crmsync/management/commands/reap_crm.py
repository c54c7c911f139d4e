"""Take back what dead workers hold: the minute's task, for a timer that must not depend on the task queue."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from crmsync import tasks
from crmsync.models import Claim

DONE, PARTIAL = 0, 3


class Command(BaseCommand):
    help = "Take back expired claims, prune idle lanes, wake a worker. A few seconds. Exit 3: some messages died."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="Say how many claims have expired and change nothing."
        )
        parser.add_argument("--json", action="store_true", help="One JSON object as the last line of stdout.")

    def handle(self, *args: Any, **options: Any) -> None:
        counts = {"claims": Claim.objects.expired().count()} if options["dry_run"] else tasks.reap()
        self.stdout.write(
            json.dumps(counts) if options["json"] else ", ".join(f"{name} {count}" for name, count in counts.items())
        )
        raise SystemExit(PARTIAL if counts.get("dead") else DONE)
