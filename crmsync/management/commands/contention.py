"""Where the writes met locks, what else locks there, and what to do about it."""

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from crmsync.arguments import whole
from crmsync.contention import Contention, contention
from crmsync.doctor.advice import advice
from crmsync.doctor.locking import built_in


class Command(BaseCommand):
    help = "Lock failures by parent, hour and object, what else locks these objects, and advice. Changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--days", type=whole(most=3_650), default=7, help="how many days back from now (default 7)")
        parser.add_argument("--offline", action="store_true", help="do not ask the org what else locks these objects")
        parser.add_argument("--json", action="store_true", help="one JSON object as the last line of stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        until = timezone.now()
        found = contention(since=until - timedelta(days=options["days"]), until=until)
        names = [each.object for each in found.objects]
        built, unknown = ([], "") if options["offline"] else built_in(names)
        says = advice(found, built)
        if options["json"]:
            built_as_dicts = [{"kind": each.kind, "object": each.object, "name": each.name} for each in built]
            self.stdout.write(
                json.dumps({**found.as_dict(), "built": built_as_dicts, "unknown": unknown, "advice": says})
            )
            return
        self.stdout.write("\n".join([*as_lines(found), *(f"- {line}" for line in says)]))
        if unknown:
            self.stderr.write(unknown)


def as_lines(found: Contention) -> list[str]:
    lines = [
        f"{found.failures} of {found.attempts} attempts met a lock from {found.since:%Y-%m-%d %H:%M} to "
        f"{found.until:%Y-%m-%d %H:%M} UTC, {found.ours} of them one of our own."
    ]
    if found.failures:
        lines.append(f"{'parent':50}{'failures':>10}{'ours':>6}{'attempts':>10}  last")
        lines += [
            f"{each.label[:49]:50}{each.failures:>10}{each.ours:>6}{each.attempts:>10}  {each.last_at:%Y-%m-%d %H:%M}"
            for each in found.parents
        ]
        lines.append(
            "by hour (UTC): " + " ".join(f"{hour:02}:{count}" for hour, count in enumerate(found.hours) if count)
        )
    return lines
