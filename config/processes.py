"""Which processes a running Rota consists of. Data; `config/supervise.py` keeps them alive."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

MARGIN_S = 20

# Whoever answers people comes first where the cores do not suffice for all; a lead may be in the CRM a moment later.
YIELDING = ("nice", "-n", "10")


@dataclass(frozen=True)
class Process:
    """One supervised process: its command line, its own environment, and how long a clean stop may take, in seconds."""

    name: str
    command: tuple[str, ...]
    stop_seconds: int
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """What the table depends on. `task_timeout` in seconds; no `sandbox_port` means that a real org is configured, no
    `mailbox_port` a real relay.
    """

    sandbox_port: int | None
    sandbox_login: tuple[str, str]
    sandbox_data: str
    queues: tuple[str, ...]
    task_timeout: int
    mailbox_port: int | None = None
    mailbox_folder: str = ""


def processes(wanted: Wanted) -> list[Process]:
    """Every process of this installation, in the order they start."""
    python = sys.executable
    table = [Process("web", (python, "-m", "gunicorn", "-c", "python:config.web", "config.wsgi"), stop_seconds=30)]
    if wanted.sandbox_port is not None:
        table.insert(0, Process("sandbox", sandbox(python, wanted), stop_seconds=10))
    if wanted.mailbox_port is not None:
        table.insert(0, Process("mailbox", mailbox(python, wanted), stop_seconds=5))
    table += queue_processes(python, wanted.queues, wanted.task_timeout)
    table.append(Process("watch", (*YIELDING, python, "manage.py", "watch_queues"), stop_seconds=5))
    return table


def queue_processes(python: str, queues: Iterable[str], task_timeout: int) -> list[Process]:
    """A q2 cluster per queue. It may finish the tasks it holds, so it is given longer than a task may take."""
    return [
        Process(
            queue, (*YIELDING, python, "manage.py", "work", queue), task_timeout + MARGIN_S, {"Q_CLUSTER_NAME": queue}
        )
        for queue in queues
    ]


def mailbox(python: str, wanted: Wanted) -> tuple[str, ...]:
    """Where campaign mail stays while no relay is set."""
    where = ("--port", str(wanted.mailbox_port), "--folder", wanted.mailbox_folder)
    return (*YIELDING, python, "-m", "config.mailbox", *where)


def sandbox(python: str, wanted: Wanted) -> tuple[str, ...]:
    """The local Salesforce org, as slow as a near one: 20 ms a transaction and 1 ms a row."""
    client_id, client_secret = wanted.sandbox_login
    return (
        *(
            *YIELDING,
            python,
            "-m",
            "crmsync.sandbox",
            "--port",
            str(wanted.sandbox_port),
            "--data",
            wanted.sandbox_data,
        ),
        *("--transaction-ms", "20", "--row-ms", "1", "--client-id", client_id, "--client-secret", client_secret),
    )
