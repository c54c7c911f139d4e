"""Many clients in a few processes, each client a thread with a connection of its own, all working for the same time.

Python runs one thread of a process at a time; processes share the machine's cores with Postgres, as web workers do.
"""

import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

CLIENTS = 32
PROCESSES = 4


@dataclass(frozen=True)
class Measured:
    """What all clients did together in one round: calls a second, milliseconds a call, how often each answer came."""

    per_second: float
    p50_ms: float
    p95_ms: float
    answers: dict[str, int]


class Clients:
    """CLIENTS threads in PROCESSES processes; `make_work` is a function of a module, and makes what one client does."""

    def __init__(self, database: str) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipes: list[Connection] = []
        self.processes = []
        for _ in range(PROCESSES):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=serve, args=(theirs, database), daemon=True)
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)

    def run(self, make_work: Callable[..., Any], seconds: float, **arguments: Any) -> Measured:
        for number, pipe in enumerate(self.pipes):
            pipe.send((make_work, arguments, seconds, range(number, CLIENTS, PROCESSES)))
        for pipe in self.pipes:
            assert pipe.recv() == "ready"
        began = time.perf_counter()
        for pipe in self.pipes:
            pipe.send("go")
        told = [pipe.recv() for pipe in self.pipes]
        took = time.perf_counter() - began
        times = sorted(ms for one in told for ms, _ in one)
        answers: dict[str, int] = {}
        for one in told:
            for _, answer in one:
                answers[answer] = answers.get(answer, 0) + 1
        return Measured(len(times) / took, statistics.median(times), times[int(len(times) * 0.95)], answers)

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join()


@contextmanager
def clients(database: str) -> Iterator[Clients]:
    crowd = Clients(database)
    try:
        yield crowd
    finally:
        crowd.close()


def serve(pipe: Connection, database: str) -> None:
    """One process of clients: do what is asked until told to stop."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from django.db import connection

    connection.settings_dict["NAME"] = database
    while (order := pipe.recv()) is not None:
        make_work, arguments, seconds, numbers = order
        ready, go = threading.Barrier(len(numbers) + 1), threading.Barrier(len(numbers) + 1)
        told: list[tuple[float, str]] = []
        threads = [
            threading.Thread(target=client, args=(make_work, number, arguments, seconds, ready, go, told))
            for number in numbers
        ]
        for thread in threads:
            thread.start()
        ready.wait()
        pipe.send("ready")
        pipe.recv()
        go.wait()
        for thread in threads:
            thread.join()
        pipe.send(told)


def client(
    make_work: Callable[..., Callable[[], str]],
    number: int,
    arguments: dict[str, Any],
    seconds: float,
    ready: threading.Barrier,
    go: threading.Barrier,
    told: list[tuple[float, str]],
) -> None:
    from django.db import connection

    connection.ensure_connection()
    try:
        work = make_work(number=number, **arguments)
        ready.wait()
        go.wait()
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            answer = work()
            told.append((1000 * (time.perf_counter() - began), answer))
    finally:
        connection.close()
