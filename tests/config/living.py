"""Real processes for tests: started, looked at, killed, and gone when the test ends."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psutil
from django.db import connection

from config.processes import Process
from config.supervise import PROJECT, configuration

PYTHON = sys.executable


def until(holds: Callable[[], Any], seconds: float = 60.0) -> Any:
    """The first true answer; fails the test where there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := holds()):
        assert time.monotonic() < deadline, f"did not become true within {seconds} s"
        time.sleep(0.05)
    return answer


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that shares this test's database."""
    url = urlsplit(os.environ["DATABASE_URL"])
    shared = urlunsplit(url._replace(path=f"/{connection.settings_dict['NAME']}"))
    return {**os.environ, "DATABASE_URL": shared, "DJANGO_SETTINGS_MODULE": "config.settings", **more}


@contextlib.contextmanager
def running(*command: str, log: Path, **more: str) -> Iterator[psutil.Process]:
    """A process in the project's folder; it and all it started are killed in the end."""
    with open(log, "w") as file:
        started = subprocess.Popen(
            command, cwd=PROJECT, env=environment(**more), stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    process = psutil.Process(started.pid)
    seen = [process]
    try:
        yield process
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            seen += process.children(recursive=True)
        for one in seen:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        started.wait(10)


@contextlib.contextmanager
def supervised(table: list[Process], folder: Path, **more: str) -> Iterator[psutil.Process]:
    """A supervisor with these processes; their logs are in that folder."""
    launch = (
        "import os, sys; from pathlib import Path; path, text = Path(sys.argv[1]), sys.argv[2]; "
        "path.write_text(text.replace('@SUPERVISOR@', str(os.getpid()))); "
        "os.execv(sys.executable, [sys.executable, '-m', 'config.supervise', str(path)])"
    )
    text = configuration(table, supervisor="@SUPERVISOR@", run=folder, logs=folder)
    with running(PYTHON, "-c", launch, str(folder / "supervisord.conf"), text, log=folder / "out", **more) as process:
        yield process


def child(process: psutil.Process, *words: str) -> psutil.Process | None:
    """The process's child whose command line ends in these words."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in process.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if one.cmdline()[-len(words) :] == list(words):
                    return one
    return None


def gone(processes: list[psutil.Process]) -> bool:
    """Whether none of them runs; a zombie that nobody has reaped yet does not run."""

    def runs(one: psutil.Process) -> bool:
        try:
            return bool(one.is_running()) and one.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return not any(runs(one) for one in processes)


def kill_9(process: psutil.Process) -> None:
    process.send_signal(signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
