"""Send what waits for the CRM now, and say what became of it."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from crmsync.arguments import positive
from crmsync.errors import NotConfigured
from crmsync.flows.deliver import deliver
from crmsync.models import OutboxMessage
from crmsync.moves.org import not_writing

DONE, FAILED, PARTIAL = 0, 1, 3


class Command(BaseCommand):
    help = (
        "Send what is due in the outbox. Takes --seconds at most, and one call's time more. Exit 3: some rows died, or "
        "some are due that may not be sent now."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--seconds", type=positive, default=20.0, help="How long to go on while work is left (20).")
        parser.add_argument("--dry-run", action="store_true", help="Say how many are due and send nothing.")
        parser.add_argument("--json", action="store_true", help="One JSON object as the last line of stdout.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            self.say({"due": OutboxMessage.objects.due().count()}, as_json=options["json"])
            return
        try:
            done = deliver(budget_s=options["seconds"])
        except NotConfigured as error:
            self.stderr.write(str(error))
            raise SystemExit(FAILED) from error
        counts: dict[str, Any] = {**done.as_counts(), "still_due": OutboxMessage.objects.due().count()}
        held = not_writing() if counts["still_due"] else ""
        if held:
            self.stderr.write(held)
            counts |= {"not_writing": held} if options["json"] else {}
        self.say(counts, as_json=options["json"])
        raise SystemExit(PARTIAL if done.dead or held else DONE)

    def say(self, counts: dict[str, Any], *, as_json: bool) -> None:
        self.stdout.write(
            json.dumps(counts) if as_json else ", ".join(f"{name} {count}" for name, count in counts.items())
        )
