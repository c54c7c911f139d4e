"""Undo a run of assign_waiting: what nobody has touched since waits again."""

import getpass
import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from routing.errors import RunNotUndone
from routing.undo_run import UNDO_H, undo

PARTIAL = 3


class Command(BaseCommand):
    help = (
        f"Undo a run of assign_waiting within {UNDO_H} hours: its leads wait again and their turns are given back, "
        "except those that somebody has touched since. Turns give the leads out again as their team stands by then. "
        "About a second for a thousand leads. Exit codes: 0 done, 1 failed or cannot be undone, 2 usage, 3 some leads "
        "were left with their reps."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", metavar="RUN", type=int, help="its number, as assign_waiting and the admin tell it")
        parser.add_argument("--by", metavar="NAME", default="", help="who asks, for the record; by default the user")
        parser.add_argument("--json", action="store_true", help="figures as one JSON object in the last line")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            undone = undo(run_id=options["run"], by=options["by"].strip() or getpass.getuser())
        except RunNotUndone as refusal:
            raise CommandError(str(refusal)) from refusal
        except DatabaseError as fault:
            raise CommandError(
                f"The database refused: {type(fault.__cause__ or fault).__name__}. Run it again: it does the rest."
            ) from fault
        for why, many in undone.left.items():
            self.stderr.write(f"{many} left: the lead {why}")
        left = sum(undone.left.values())
        if options["json"]:
            figures = {"command": "undo_run", "run": options["run"], "returned": undone.returned, "left": left}
            self.stdout.write(json.dumps({**figures, "because": dict(undone.left)}))
        else:
            self.stdout.write(f"returned {undone.returned}, left {left}.")
        if left:
            sys.exit(PARTIAL)
