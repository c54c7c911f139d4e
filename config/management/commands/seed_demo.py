"""Fill an empty installation with the demo's team, reps and source."""

from typing import Any

from django.core.management.base import BaseCommand

from config.demo.seed import seed


class Command(BaseCommand):
    help = "Make the demo team of five reps and the source `web`. Safe to run again."

    def handle(self, *args: Any, **options: Any) -> None:
        source = seed()
        self.stderr.write(f"Team {source.team} takes the leads of source {source.slug}.")
