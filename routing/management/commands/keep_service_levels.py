"""Look for leads that were not worked in time, once, and deal with them as their teams want."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from routing import service_levels


class Command(BaseCommand):
    help = (
        "Show leads that their rep has not worked in time under Late leads, or give them to the next in turn; the task "
        "queue does it every minute. Takes 20 seconds at most; exits 3 where some were left to the next run."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count the leads that are late")
        parser.add_argument("--json", action="store_true", help="figures as one JSON object in the last line")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            figures = {"late": len(service_levels.late_now()), "moved": 0, "failed": 0}
        else:
            figures = asdict(service_levels.keep())
        words = ", ".join(f"{name} {count}" for name, count in figures.items())
        self.stdout.write(json.dumps(figures) if options["json"] else f"{words}.")
        if figures["failed"]:
            raise SystemExit(3)
