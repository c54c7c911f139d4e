"""Make the database's schedules those of config/schedules.py."""

from typing import Any

from django.core.management.base import BaseCommand

from config.schedules import sync_schedules


class Command(BaseCommand):
    help = "Create, change and remove django-q2 schedules until they are those of config/schedules.py."

    def handle(self, *args: Any, **options: Any) -> None:
        done = sync_schedules()
        self.stderr.write(f"Schedules: created {done.created}, changed {done.changed}, removed {done.removed}.")
