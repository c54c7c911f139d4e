"""Plan when every rep works, sixty days ahead, out of working hours, holidays and time off."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from routing.hours import plan_all


class Command(BaseCommand):
    help = (
        "Plan the shifts of every rep, sixty days ahead. Rota does it by itself at every edit and every six hours. "
        "A rep without working hours works Monday to Friday from 09:00 to 17:00 on the rep's own clock. Seconds."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="say how many would change, change none")
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        planned = plan_all(dry_run=options["dry_run"])
        if options["json"]:
            self.stdout.write(json.dumps(asdict(planned)))
        else:
            verb = "would change" if options["dry_run"] else "changed"
            self.stdout.write(f"{planned.reps} reps; the shifts of {planned.changed} {verb}.")
