"""Bring the database up to date and serve: the web server, the task queues and, without a real org, the sandbox org."""

import os
import signal
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from config import first_start, supervise
from config.ports import PortsTaken, held, ports_of
from config.processes import Wanted, processes
from config.schedules import sync_schedules
from config.tether import die_with
from config.welcome import Greeting, welcome
from routing.models import InboundSource


class Command(BaseCommand):
    help = "Migrate, sync the schedules, seed an empty database, then serve until Ctrl-C or SIGTERM."

    def handle(self, *args: Any, **options: Any) -> None:
        if running := supervise.supervisor():
            raise CommandError(f"Rota is up already here (process {running.pid}); `./rota down` stops it.")
        wants = wanted()
        try:
            with held(ports_of(wants, host=settings.HOST, port=settings.PORT)):
                first = self.prepared()
        except PortsTaken as fault:
            raise CommandError(str(fault)) from None

        connections.close_all()
        supervisor = os.getpid()
        if os.fork() == 0:
            greet(supervisor, first, self.stderr.write)
        supervise.become_supervisor(processes(wants))

    def prepared(self) -> first_start.FirstStart:
        """Bring the database up to date, and give an empty one what it needs."""
        self.stderr.write("rota: migrations and schedules ...")
        call_command("migrate", verbosity=0, interactive=False)
        sync_schedules()
        first = first_start.prepare()
        if first.wants_demo:
            call_command("seed_demo", stdout=self.stderr)
        return first


def wanted() -> Wanted:
    """What the settings ask for."""
    return Wanted(
        sandbox_port=settings.SANDBOX_PORT if settings.CRM_IS_SANDBOX else None,
        sandbox_login=(settings.CRM_CLIENT_ID, settings.CRM_CLIENT_SECRET),
        sandbox_data="var/sandbox",
        queues=("default", *settings.Q_CLUSTER["ALT_CLUSTERS"]),
        task_timeout=settings.Q_CLUSTER["timeout"],
        mailbox_port=settings.MAILBOX_PORT if settings.MAIL_STAYS_HERE else None,
        mailbox_folder=settings.MAILBOX_FOLDER,
    )


def webhook_secret() -> str | None:
    """The secret of the demo's source; None beside a real org, whose secrets do not belong on a terminal."""
    sources = InboundSource.objects.filter(slug="web")
    return sources.values_list("secret", flat=True).first() if settings.CRM_IS_SANDBOX else None


def greet(supervisor: int, first: first_start.FirstStart, say: Any) -> None:
    """In a process of its own, since the one that forked it becomes the supervisor. Does not return."""
    try:
        die_with(supervisor, signal.SIGTERM)
        host = "127.0.0.1" if settings.HOST in ("0.0.0.0", "::") else settings.HOST
        greeting = Greeting(f"http://{host}:{settings.PORT}", first.password, webhook_secret())
        welcome(greeting, first.wants_demo, say)
    except KeyboardInterrupt:
        pass
    finally:
        os._exit(0)
