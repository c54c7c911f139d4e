"""Start a local Salesforce org with real row locks, for the demo and for trying things out."""

import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from django.core.management.base import BaseCommand

from crmsync.sandbox import options, server


class Command(BaseCommand):
    help = __doc__ or ""
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        options.add_arguments(parser)

    def handle(self, *args: Any, **given: Any) -> None:
        sys.exit(server.serve(options.from_arguments(Namespace(**given))))
