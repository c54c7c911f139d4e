"""Work on one queue: a django-q2 cluster that leaves no orphans and does not stand still when a worker dies."""

import gc
import os
import signal
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.processes import MARGIN_S
from config.tether import tether_forks


class Command(BaseCommand):
    help = "Work on the tasks of one queue until SIGTERM; tasks already taken are finished first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("queue", choices=["default", *settings.Q_CLUSTER["ALT_CLUSTERS"]])

    def handle(self, *args: Any, queue: str, **options: Any) -> None:
        if os.environ.get("Q_CLUSTER_NAME") != queue:  # django-q2 has read it while it was imported
            os.environ["Q_CLUSTER_NAME"] = queue
            os.execv(sys.executable, [sys.executable, *sys.argv])

        from django_q.cluster import Cluster

        from config import death_safe

        class Bounded(Cluster):
            """A cluster whose clean stop has an end: SIGALRM then kills this process, and the tether the rest."""

            def sig_handler(self, signum: int, frame: Any) -> None:
                signal.alarm(settings.Q_CLUSTER["timeout"] + MARGIN_S - 5)
                super().sig_handler(signum, frame)

        death_safe.install()
        tether_forks()
        gc.freeze()  # else the collector's first round in each worker would copy all that is loaded
        Bounded().start()
