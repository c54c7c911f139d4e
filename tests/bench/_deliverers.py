"""Workers of the outbox as processes of their own, which deliver until nothing is left; and rows for them."""

import gc
import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from django.db import connection

from tests.bench._workloads import Contact

IDLE_S = 0.5  # before an idle worker looks again; in the queue nobody looks, a nudge wakes it
BATCH = 1_000


class Deliverers:
    """So many processes, each with a connection of its own to the database and to the org of the environment."""

    def __init__(self, database: str, count: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipes: list[Connection] = []
        self.processes = []
        for number in range(count):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=serve, args=(theirs, database, number), daemon=True)
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)
        for pipe in self.pipes:
            assert pipe.recv() == "ready"

    def deliver(self, seconds: float) -> float:
        """Deliver all that is open, for so long at most; the seconds until the last message was settled."""
        began = time.perf_counter()
        for pipe in self.pipes:
            pipe.send(seconds)
        told = [pipe.recv() for pipe in self.pipes]
        for one in told:
            if isinstance(one, BaseException):
                raise one
        return max(told) - began

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join()


@contextmanager
def deliverers(database: str, count: int) -> Iterator[Deliverers]:
    crew = Deliverers(database, count)
    try:
        yield crew
    finally:
        crew.close()


def serve(pipe: Connection, database: str, number: int) -> None:
    """One worker: answers when (time.perf_counter, one clock for all processes) it last settled something."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    connection.settings_dict["NAME"] = database
    from crmsync.flows.deliver import deliver
    from crmsync.gateway import connect

    connection.ensure_connection()
    connect().sign_in()
    gc.freeze()  # as in every worker of a queue
    pipe.send("ready")
    while (seconds := pipe.recv()) is not None:
        last, until = time.perf_counter(), time.monotonic() + seconds
        try:
            while time.monotonic() < until and is_open():
                if deliver(budget_s=1, worker=f"bench:{number}").chunks:
                    last = time.perf_counter()
                else:
                    time.sleep(IDLE_S)
            pipe.send(last)
        except Exception as fault:
            pipe.send(RuntimeError(f"worker {number}: {type(fault).__name__}: {fault}"))
    connection.close()


def is_open() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM crmsync_outboxmessage WHERE status IN ('pending', 'claimed'))")
        return bool(cursor.fetchone()[0])


def enqueue_accounts(rows: Sequence[Contact]) -> int:
    """The accounts of these contacts as a mass update of their own; how many."""
    keys = sorted({row.account for row in rows})
    enqueue("Account", keys, [{"name": key} for key in keys], [[] for _ in keys])
    return len(keys)


def enqueue_contacts(rows: Sequence[Contact]) -> None:
    """The contacts as a mass update, in the order in which they come."""
    enqueue(
        "Contact",
        [row.key for row in rows],
        [dict(row.fields) for row in rows],
        [[{"relation": "Account", "object": "Account", "external_id": row.account}] for row in rows],
    )


def enqueue(object: str, keys: Sequence[str], fields: Sequence[Any], parents: Sequence[Any]) -> None:
    with connection.cursor() as cursor:
        for start in range(0, len(keys), BATCH):
            part = slice(start, start + BATCH)
            cursor.execute(
                "SELECT count(*) FROM outbox_enqueue(%s, %s, %s::jsonb[], %s::jsonb[], 1::smallint)",
                [object, list(keys[part]), [json.dumps(each) for each in fields[part]],
                 [json.dumps(each) for each in parents[part]]],
            )  # fmt: skip
