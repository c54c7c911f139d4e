"""Workers of three queues, each in a process of its own: Rota's sender, Procrastinate and PGQueuer.

Every one drains what is there and ends. The hand-over does nothing; while workers are killed it writes down that it
happened, over a connection of its own, so that what was done twice can be counted.
"""

import asyncio
import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

SPAWN = multiprocessing.get_context("spawn")
BATCH = 50
CONCURRENCY = 10
"""Jobs at a time in one Procrastinate worker: with more it was no faster."""
Effect = Callable[[int], None]


class Worker:
    """A process that waits for `go`, drains its queue and ends."""

    def __init__(self, system: str, *, dsn: str, database: str, effect_ms: float = 0, lease_s: float = 1_800) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.process: BaseProcess = SPAWN.Process(
            target=work, args=(system, theirs, dsn, database, effect_ms, lease_s), daemon=True
        )
        self.process.start()
        theirs.close()

    def ready(self) -> "Worker":
        assert self.pipe.recv() == "ready"
        return self

    def go(self) -> None:
        self.pipe.send("go")

    def wait(self) -> None:
        fault = self.pipe.recv()
        self.process.join()
        if fault:
            raise RuntimeError(fault)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def work(system: str, pipe: Connection, dsn: str, database: str, effect_ms: float, lease_s: float) -> None:
    """One process. Everything is imported and connected before it says that it is ready."""
    drain = {"rota": rota, "procrastinate": procrastinate, "pgqueuer": pgqueuer}[system]
    try:
        drain(pipe, dsn=dsn, database=database, effect=effect_of(system, dsn, effect_ms), lease_s=lease_s)
        pipe.send("")
    except Exception as fault:
        pipe.send(f"{system}: {type(fault).__name__}: {fault}")


def wait_for_go(pipe: Connection) -> None:
    pipe.send("ready")
    assert pipe.recv() == "go"


def nothing(number: int) -> None:
    """A hand-over that costs nothing."""


async def aside(effect: Effect, number: int) -> None:
    """Hand over in a thread, so that a peer's loop goes on beating meanwhile; at once where nothing is done."""
    if effect is not nothing:
        await asyncio.to_thread(effect, number)


def effect_of(system: str, dsn: str, effect_ms: float) -> Effect:
    """What a hand-over does: nothing, or a committed row and then a wait in which a kill may fall."""
    if not effect_ms:
        return nothing
    import psycopg

    connection = psycopg.connect(dsn, autocommit=True)

    def effect(number: int) -> None:
        connection.execute("INSERT INTO bench_effect (system, number) VALUES (%s, %s)", [system, number])
        time.sleep(effect_ms / 1_000)

    return effect


def rota(pipe: Connection, *, dsn: str, database: str, effect: Effect, lease_s: float) -> None:
    """Claim, gate, hand over, settle with the next gate: the moves of the product's sender, with the same commits."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from django.conf import settings
    from django.db import connection

    from outreach.mail.outcome import Outcome
    from outreach.models import Campaign
    from outreach.moves.claims import claim_batch, end_claim
    from outreach.moves.gate import Begun, Intent, begin
    from outreach.moves.onward import Handed, settle_and_begin
    from outreach.moves.settling import settle

    settings.CLAIM_LEASE_S = lease_s
    connection.settings_dict["NAME"] = database
    worker, accepted = f"bench {os.getpid()}", Outcome("accepted", "done", 250, "queued")
    campaigns = list(Campaign.objects.running().order_by("pk").values_list("pk", flat=True))
    wait_for_go(pipe)
    for campaign in campaigns:
        while held := claim_batch(campaign_id=campaign, worker=worker, size=BATCH, lease_s=lease_s):
            handed: Handed | None = None
            for message in held.messages:
                mine: dict[str, Any] = {"intent": Intent(message, "<m@x>", "d"), "worker": worker}
                gate = settle_and_begin(handed=handed, **mine) if handed else begin(token=held.token, **mine)
                handed = None
                if isinstance(gate, Begun):
                    effect(message)
                    handed = Handed(held.token, gate.attempt, accepted)
                elif gate.stop:
                    break
            if handed:
                settle(attempt_id=handed.attempt, outcome=accepted, worker=worker, token=held.token)
            end_claim(token=held.token)
    connection.close()


def procrastinate(pipe: Connection, *, dsn: str, database: str, effect: Effect, lease_s: float) -> None:
    """Procrastinate's own worker, as its documentation starts it."""
    import procrastinate as peer

    app = peer.App(connector=peer.PsycopgConnector(conninfo=dsn))

    @app.task(name="send")
    async def send(number: int) -> None:
        await aside(effect, number)

    async def drain() -> None:
        async with app.open_async():
            wait_for_go(pipe)
            await app.run_worker_async(
                wait=False,
                concurrency=CONCURRENCY,
                install_signal_handlers=False,
                update_heartbeat_interval=lease_s / 4,
            )

    asyncio.run(drain())


def pgqueuer(pipe: Connection, *, dsn: str, database: str, effect: Effect, lease_s: float) -> None:
    """PGQueuer's own worker in its mode for draining."""
    from datetime import timedelta

    import psycopg
    from pgqueuer import PgQueuer
    from pgqueuer.models import Job
    from pgqueuer.types import QueueExecutionMode

    async def drain() -> None:
        connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
        queue = PgQueuer.from_psycopg_connection(connection)

        @queue.entrypoint("send")
        async def send(job: Job) -> None:
            await aside(effect, int(job.payload or 0))

        wait_for_go(pipe)
        beat = timedelta(seconds=lease_s)
        await queue.qm.run(mode=QueueExecutionMode.drain, batch_size=BATCH, heartbeat_timeout=beat)

    asyncio.run(drain())


def defer(system: str, *, dsn: str, count: int) -> Any:
    """Put `count` jobs into a peer's queue."""
    if system == "procrastinate":
        return asyncio.run(defer_procrastinate(dsn, count))
    return asyncio.run(defer_pgqueuer(dsn, count))


async def defer_procrastinate(dsn: str, count: int) -> None:
    import procrastinate as peer

    app = peer.App(connector=peer.PsycopgConnector(conninfo=dsn))
    app.task(name="send")(lambda number: None)
    async with app.open_async():
        await app.configure_task("send").batch_defer_async(*({"number": n} for n in range(count)))


async def defer_pgqueuer(dsn: str, count: int) -> None:
    import psycopg
    from pgqueuer import Queries

    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        queries = Queries.from_psycopg_connection(connection)
        await queries.enqueue(["send"] * count, [str(n).encode() for n in range(count)], [0] * count)


async def install(dsn: str) -> None:
    """The peers' own tables, in the database of the bench."""
    import procrastinate as peer
    import psycopg
    from pgqueuer import Queries

    async with peer.App(connector=peer.PsycopgConnector(conninfo=dsn)).open_async() as app:
        await app.schema_manager.apply_schema_async()
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await Queries.from_psycopg_connection(connection).install()


async def retry_stalled(dsn: str, seconds: float) -> int:
    """What Procrastinate's documentation has its users schedule; nothing does it by itself."""
    import procrastinate as peer

    async with peer.App(connector=peer.PsycopgConnector(conninfo=dsn)).open_async() as app:
        stalled = list(await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=seconds))
        for job in stalled:
            await app.job_manager.retry_job(job)
    return len(stalled)
