"""Settle the mails in doubt of which something was reported, once, from the command line or cron."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from outreach.checks import CHECKS
from outreach.flows.resolving import resolve_in_doubt
from outreach.models import Message


class Command(BaseCommand):
    requires_system_checks = [CHECKS]  # the others load the admin, which takes longer than many a run

    help = (
        "Look mails in doubt up by their Message-ID in what relays and providers reported, and settle those found. The "
        "reaper does it every minute. What is left waits for a person."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count what would be settled")
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        settled = resolve_in_doubt(dry_run=options["dry_run"])
        left = Message.objects.in_doubt().count()
        if options["json"]:
            self.stdout.write(json.dumps({"settled": settled, "in_doubt": left}))
        else:
            verb = "could be settled" if options["dry_run"] else "settled"
            self.stdout.write(f"{settled} {verb}, {left} in doubt.")
