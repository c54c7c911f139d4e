"""Many clients in a few processes, each client a thread with a connection of its own, all working for the same time.

Python runs one thread of a process at a time; processes share the machine's cores with Postgres, as web workers do.
"""

import multiprocessing
import os
import queue
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
        for first in range(PROCESSES):
            ours, theirs = spawn.Pipe()
            numbers = range(first, CLIENTS, PROCESSES)
            process = spawn.Process(target=serve, args=(theirs, database, numbers), daemon=True)
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)

    def run(self, make_work: Callable[..., Any], seconds: float, *, least: int = 0, **arguments: Any) -> Measured:
        """Let every client work for so long, and `least` times at least."""
        for pipe in self.pipes:
            pipe.send((make_work, arguments, seconds, least))
        for pipe in self.pipes:
            assert pipe.recv() == "ready"
        began = time.perf_counter()
        for pipe in self.pipes:
            pipe.send("go")
        told = [pipe.recv() for pipe in self.pipes]
        took = time.perf_counter() - began
        for one in told:
            if isinstance(one, BaseException):
                raise one
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


@dataclass
class Order:
    """What the clients of one process are to do together, and what came of it."""

    make_work: Callable[..., Callable[[], str]]
    arguments: dict[str, Any]
    seconds: float
    least: int
    ready: threading.Barrier
    go: threading.Barrier
    done: threading.Barrier
    told: list[tuple[float, str]] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)


def serve(pipe: Connection, database: str, numbers: range) -> None:
    """One process of clients: do what is asked until told to stop. Connections stay open, as a web worker's do."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from django.db import connection

    connection.settings_dict["NAME"] = database
    orders: list[queue.SimpleQueue[Order | None]] = [queue.SimpleQueue() for _ in numbers]
    for number, mine in zip(numbers, orders, strict=True):
        threading.Thread(target=client, args=(number, mine)).start()
    while (asked := pipe.recv()) is not None:
        order = Order(*asked, *(threading.Barrier(len(numbers) + 1) for _ in range(3)))
        for each in orders:
            each.put(order)
        order.ready.wait()
        pipe.send("ready")
        pipe.recv()
        order.go.wait()
        order.done.wait()
        pipe.send(order.faults[0] if order.faults else order.told)
    for each in orders:
        each.put(None)


def client(number: int, orders: "queue.SimpleQueue[Order | None]") -> None:
    from django.db import connection

    while (order := orders.get()) is not None:
        connection.ensure_connection()
        work = order.make_work(number=number, **order.arguments)
        order.ready.wait()
        order.go.wait()
        try:
            until, calls = time.perf_counter() + order.seconds, 0
            while (began := time.perf_counter()) < until or calls < order.least:
                answer = work()
                calls += 1
                order.told.append((1000 * (time.perf_counter() - began), answer))
        except Exception as fault:
            order.faults.append(RuntimeError(f"{type(fault).__name__}: {fault}"))
        order.done.wait()
    connection.close()
