"""Watch that every queue is being worked on and that the embedded Postgres answers; restart what stands still."""

import logging
import os
import time
from argparse import ArgumentParser
from typing import Any

import psutil
from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection

from config.beats import Pulse
from config.localpg import cluster, start_again
from config.pg_programs import LocalPostgresError
from config.processes import MARGIN_S

log = logging.getLogger(__name__)
QUEUES = ["default", *settings.Q_CLUSTER["ALT_CLUSTERS"]]


class Command(BaseCommand):
    help = "Kill the main process of a cluster whose queue stands still; the supervisor, our parent, starts it again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        least = settings.Q_CLUSTER["timeout"] + MARGIN_S
        parser.add_argument("--stuck-after", type=float, default=least, help="seconds without any finished task")
        parser.add_argument("--every", type=float, default=5.0, help="seconds between two looks")
        parser.add_argument("--only", choices=QUEUES, action="append", help="watch this queue only; may be repeated")

    def handle(self, *args: Any, stuck_after: float, every: float, only: list[str] | None, **options: Any) -> None:
        supervisor = psutil.Process(os.getppid())
        pulses = new_pulses(only or QUEUES, stuck_after)
        while True:
            try:
                for pulse in pulses.values():
                    if pulse.look(time.monotonic()):
                        log.error("queue=%s stuck_seconds=%s restarting its cluster", pulse.queue, stuck_after)
                        restart(supervisor, pulse.queue)
                        pulses[pulse.queue] = Pulse(pulse.queue, stuck_after, time.monotonic())
            except DatabaseError:
                log.warning("the database does not answer; looking again")
                connection.close()
                restart_postgres()
                pulses = new_pulses(only or QUEUES, stuck_after)
            time.sleep(every)


def new_pulses(queues: list[str], stuck_after: float) -> dict[str, Pulse]:
    now = time.monotonic()
    return {queue: Pulse(queue, stuck_after, now) for queue in queues}


def restart_postgres() -> None:
    """Start the embedded Postgres again if that is what we use: it is no child of the supervisor, but outlives it."""
    try:
        if start_again(cluster(), os.environ["DATABASE_URL"]):
            log.error("the embedded Postgres was down; started again")
    except LocalPostgresError as error:
        log.error("the embedded Postgres does not start: %s", error)


def restart(supervisor: psutil.Process, queue: str) -> None:
    """Kill the cluster's main process, which is a child of the supervisor; what it forked dies with it."""
    for child in supervisor.children():
        if child.cmdline()[-3:] == ["manage.py", "work", queue]:
            child.kill()
