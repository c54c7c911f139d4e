"""Measure Rota on this machine against something named, and say whether it held: `./rota bench turns`.

Each bench is a module of tests/bench whose `run` returns a Bench; this command finds it by name and prints the result.
"""

import importlib
import json
import pkgutil
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

FOLDER = Path(__file__).resolve().parents[3] / "tests" / "bench"


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules([str(FOLDER)]) if not module.name.startswith("_"))


class Command(BaseCommand):
    help = (
        "Measure Rota on this machine in a throw-away database of the server in DATABASE_URL, in interleaved rounds: "
        "ours, peer, ours, peer. On two idle cores `turns` takes up to 4 minutes, with --short up to 40 seconds; "
        "`crm` up to 25 minutes, with --short up to 4; `outbox` up to 8 minutes, with --short one. "
        "Exit 1 unless every target held."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", metavar="NAME", help=f"which one: {', '.join(names())}")
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")
        parser.add_argument("--short", action="store_true", help="fewer and shorter rounds, for CI")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["name"] not in names():
            self.stderr.write(f"error: there is no bench {options['name']}. There is: {', '.join(names())}.")
            raise SystemExit(2)
        bench = importlib.import_module(f"tests.bench.{options['name']}")
        result = bench.run(short=options["short"], say=self._say)
        self.stdout.write(json.dumps(result.as_dict()) if options["json"] else result.as_table())
        if not result.held:
            raise SystemExit(1)

    def _say(self, line: str) -> None:
        self.stderr.write(line)
        self.stderr.flush()
