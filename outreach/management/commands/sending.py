"""Switch all campaign mail off or on, or say whether it is on."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from outreach.flows.sender import worker_name
from outreach.moves.sending import switch_off, switch_on, why_off


class Command(BaseCommand):
    help = (
        "Say whether campaign mail may be sent, or switch it. After a restore or a failover it is off until somebody "
        "switches it on: the database may have forgotten mails that went out."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("switch", nargs="?", choices=["status", "on", "off"], default="status")
        parser.add_argument("--by", default="", help="your name")
        parser.add_argument("--reason", default="", help="why")

    def handle(self, *args: Any, switch: str, by: str, reason: str, **options: Any) -> None:
        if switch != "status" and not (by and reason):
            raise CommandError("Say who (--by) and why (--reason).", returncode=2)
        if switch == "on":
            switch_on(by=by, reason=reason)
        elif switch == "off":
            switch_off(because=f"{reason} ({by})", worker=by)
        off = why_off(worker=worker_name())
        self.stdout.write(f"off: {off}" if off else "on")
