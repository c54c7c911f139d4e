"""Run a drill: something is killed or broken on purpose, with real processes, and what must still hold is counted."""

import importlib
import json
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

FOLDER = Path(settings.BASE_DIR) / "tests" / "drills"


def drills() -> list[str]:
    """The names of all drills: the modules of tests/drills that are neither tests nor what tests share."""
    names = (path.stem for path in FOLDER.glob("*.py"))
    return sorted(name for name in names if not name.startswith(("_", "test_", "conftest")))


class Command(BaseCommand):
    help = (
        "Run a drill on databases and processes of its own and say whether what must hold held. Exit 1 unless it did. "
        "How long each may take stands in its first lines; --short is a form for CI."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", default="", help=", ".join(drills()))
        parser.add_argument("--short", action="store_true", help="the form for CI")
        parser.add_argument("--seed", type=int, default=1, help="of everything random")
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, name: str, **options: Any) -> None:
        if name not in drills():
            self.stderr.write(f"There is no drill {name!r}. There are: {', '.join(drills())}.")
            raise SystemExit(2)
        drill = importlib.import_module(f"tests.drills.{name}")
        result = drill.run(short=options["short"], seed=options["seed"], say=self._say)
        self.stdout.write(json.dumps(result) if options["json"] else as_table(result))
        if not result["ok"]:
            raise SystemExit(1)

    def _say(self, line: str) -> None:
        self.stderr.write(f"drill: {line}")
        self.stderr.flush()


def as_table(result: Mapping[str, Any]) -> str:
    """The figures for people."""
    lines = [f"{result['drill']}, seed {result['seed']}, {result['seconds']} s"]
    for name, check in result["checks"].items():
        verdict = "ok" if check["ok"] else "FAILED"
        lines.append(f"  {name:<28} {check['value']!s:>10}   wanted {check['limit']!s:<10} {verdict}")
    return "\n".join([*lines, "held" if result["ok"] else "did NOT hold"])
