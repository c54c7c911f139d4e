"""Take back what dead senders held, start scheduled campaigns and finish done ones, once."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from outreach.checks import CHECKS
from outreach.flows.reaping import reap_all
from outreach.models import Claim


class Command(BaseCommand):
    requires_system_checks = [CHECKS]  # the others load the admin, which takes longer than many a run

    help = "End claims whose lease has run out: unbegun messages are due again, begun ones are in doubt."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count expired claims")
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        figures = {"expired": Claim.objects.expired().count()} if options["dry_run"] else asdict(reap_all())
        if options["json"]:
            self.stdout.write(json.dumps(figures))
        else:
            self.stdout.write(", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in figures.items()))
