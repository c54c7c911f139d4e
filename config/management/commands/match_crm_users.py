"""Find the CRM user of each rep."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from config.crm_users import match_crm_users


class Command(BaseCommand):
    help = (
        "Give every rep without a CRM user the active CRM user with the same e-mail address. "
        "Exit 3: some have none, or an inactive one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        done = match_crm_users()
        if options["json"]:
            counts = {"matched": done.matched, "missing": len(done.missing), "inactive": len(done.inactive)}
            self.stdout.write(json.dumps(counts))
        else:
            self.stdout.write(f"Matched {done.matched}.")
        for email in done.missing:
            self.stderr.write(f"No active CRM user has the address {email}.")
        for email in done.inactive:
            self.stderr.write(f"The CRM user of {email} is inactive or unknown: the CRM refuses this owner.")
        if done.missing or done.inactive:
            raise SystemExit(3)
