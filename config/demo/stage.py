"""A whole Rota for one run: its own database, free ports, every process; gone afterwards, whatever happens.

The processes are those of `./rota up` (config/processes.py). Each is tethered to this one, so that even a kill -9 of
the demo leaves none of them behind; what is left then is a database named rota_demo_..., which the next demo drops.
"""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.db import connection

from config.processes import Process, Wanted, processes
from config.supervise import PROJECT

READY_S = 60
STOP_S = 30
PREFIX = "rota_demo_"

Running = dict[str, subprocess.Popen[bytes]]


class StageFailed(Exception):
    """A part of the demo did not start; the message ends with what its log says."""


@contextlib.contextmanager
def stage(*, say: Callable[[str], object]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the address of a fresh Rota that is ready, and the environment in which manage.py speaks to its database.

    Raises StageFailed if it is not ready within a minute.
    """
    with _database() as url, tempfile.TemporaryDirectory(prefix="rota-demo-") as folder:
        web, org, box = _free_port(), _free_port(), _free_port()
        environment = {
            **os.environ,
            "DATABASE_URL": url,
            "HOST": "127.0.0.1",
            "PORT": str(web),
            "CRM_URL": "",
            "SANDBOX_PORT": str(org),
            "EMAIL_HOST": "",
            "MAILBOX_PORT": str(box),
            "MAILBOX_FOLDER": str(Path(folder) / "mailbox"),
            "HTTPS_ONLY": "false",
            "ALLOWED_HOSTS": "127.0.0.1",
        }
        say("a throw-away database ...")
        for words in (["migrate", "--verbosity", "0"], ["sync_schedules"], ["seed_demo"]):
            _manage(words, environment)
        say("the sandbox org, the mailbox, the web server and the task queues ...")
        table = processes(
            Wanted(
                sandbox_port=org,
                sandbox_login=("rota", "sandbox"),
                sandbox_data=folder,
                queues=("default", *settings.Q_CLUSTER["ALT_CLUSTERS"]),
                task_timeout=settings.Q_CLUSTER["timeout"],
                mailbox_port=box,
                mailbox_folder=environment["MAILBOX_FOLDER"],
            )
        )
        with _running(table, environment, Path(folder)) as running:
            _wait_until_ready(f"http://127.0.0.1:{web}/readyz", running, Path(folder))
            _wait_until_ready(f"http://127.0.0.1:{org}/services/data/", running, Path(folder))
            yield f"http://127.0.0.1:{web}", environment


@contextlib.contextmanager
def _database() -> Iterator[str]:
    """The URL of a new database on our server; dropped afterwards, as are those that killed demos left behind."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE %s AND NOT EXISTS "
            "(SELECT FROM pg_stat_activity a WHERE a.datname = pg_database.datname)",
            [PREFIX.replace("_", r"\_") + "%"],
        )
        for (stale,) in cursor.fetchall():
            cursor.execute(f'DROP DATABASE IF EXISTS "{stale}"')
        name = f"{PREFIX}{os.getpid()}_{int(time.time())}"
        cursor.execute(f'CREATE DATABASE "{name}"')
    connection.close()
    try:
        yield urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextlib.contextmanager
def _running(table: list[Process], environment: dict[str, str], logs: Path) -> Iterator[Running]:
    running: Running = {}
    try:
        for process in table:
            command = [sys.executable, "-m", "config.tether", str(os.getpid()), *process.command]
            with open(logs / f"{process.name}.log", "wb") as log:
                running[process.name] = subprocess.Popen(
                    command,
                    cwd=PROJECT,
                    env=environment | process.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
        yield running
    finally:
        for one in running.values():
            one.terminate()
        until = time.monotonic() + STOP_S
        for one in running.values():
            try:
                one.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


def _wait_until_ready(url: str, running: Running, logs: Path) -> None:
    until = time.monotonic() + READY_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            dead = [name for name, one in running.items() if one.poll() is not None]
            if dead or time.monotonic() > until:
                names = dead or list(running)
                tails = "\n".join(f"--- {name}\n{_tail(logs / f'{name}.log')}" for name in names)
                raise StageFailed(f"{', '.join(names)}: not ready.\n{tails}") from None
            time.sleep(0.1)


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2_000:] if log.exists() else ""


def _manage(words: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise StageFailed(f"manage.py {' '.join(words)} failed:\n{done.stdout[-2_000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
