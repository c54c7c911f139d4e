"""From claim to settlement with a hand-over that does nothing, beside two task queues that do nothing for each job.

Four workers each, on the same Postgres, in turns. Rota writes an intent, an outcome and events for every mail; how
often each of the three commits for one message is in the figures. Then workers are killed in the middle of their
hand-overs, and what was handed over twice, or is left lying, is counted for each.
"""

import asyncio
import random
import statistics
import time
from typing import Any

from django.db import connection

from outreach.models import Message
from outreach.moves.reaper import reap
from outreach.moves.sending import why_off
from tests.bench import _senders as senders
from tests.bench._backlog import claims_in_a_large_table, launched
from tests.bench._result import Bench, Say, Target, machine
from tests.bench._senders import Worker
from tests.bench.turns import throw_away_database

WORKERS = 4
SYSTEMS = ("rota", "procrastinate", "pgqueuer")
TARGETS = {
    "vs_procrastinate": Target(">=", 1),
    "rota_duplicates": Target("<=", 0),
    "rota_stuck": Target("<=", 0),
}
EFFECT_MS = 15
LEASE_S = 2.0
PATIENCE_S = 20


def run(*, short: bool, say: Say) -> Bench:
    rounds, messages, rows, kills = (2, 400, 100_000, 2) if short else (5, 2_000, 2_000_000, 5)
    on = machine()
    with throw_away_database(say) as database:
        dsn = dsn_of(database)
        asyncio.run(senders.install(dsn))
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE bench_effect (system text, number bigint)")
        assert why_off(worker="bench") == ""
        measured = interleaved(dsn, database, rounds=rounds, messages=messages, say=say)
        after = {system: killed(system, dsn, database, kills=kills, say=say) for system in SYSTEMS}
        say(f"claims among {rows:,} messages ...")
        claims = claims_in_a_large_table(rows)
    details: dict[str, Any] = {
        "workers": f"{WORKERS} processes for each; Rota and PGQueuer take {senders.BATCH} at a time, Procrastinate "
        f"works on {senders.CONCURRENCY} at once in each process",
        "messages_a_round": messages,
        **{system: figures(measured[system]) for system in SYSTEMS},
        "after_kills": after,
        "claims": claims,
    }
    ratios = {f"vs_{peer}": ratio(measured["rota"], measured[peer]) for peer in SYSTEMS[1:]}
    ratios |= {"rota_duplicates": after["rota"]["duplicates"], "rota_stuck": after["rota"]["stuck"]}
    return Bench("sends", rounds, ratios, TARGETS, details, on)


def dsn_of(database: str) -> str:
    """The database of the bench for plain psycopg, which the peers use."""
    given = connection.settings_dict
    words = {"host": given["HOST"], "port": given["PORT"], "user": given["USER"], "password": given["PASSWORD"]}
    return " ".join(f"{key}='{value}'" for key, value in {**words, "dbname": database}.items() if value)


def interleaved(
    dsn: str, database: str, *, rounds: int, messages: int, say: Say
) -> dict[str, list[tuple[float, float]]]:
    """Messages a second and commits a message, for each system and round."""
    measured: dict[str, list[tuple[float, float]]] = {system: [] for system in SYSTEMS}
    for number in range(rounds):
        for system in SYSTEMS:
            prepare(system, dsn, messages, name=f"round {number}")
            crowd = [Worker(system, dsn=dsn, database=database) for _ in range(WORKERS)]
            for worker in crowd:
                worker.ready()
            before, began = commits(), time.perf_counter()
            for worker in crowd:
                worker.go()
            for worker in crowd:
                worker.wait()
            took = time.perf_counter() - began
            left = unfinished(system)
            assert not left, f"{system} left {left} of {messages}"
            measured[system].append((messages / took, (commits() - before) / messages))
        told = ", ".join(f"{system} {each[-1][0]:,.0f}/s" for system, each in measured.items())
        say(f"round {number + 1} of {rounds}: {told}")
    return measured


def prepare(system: str, dsn: str, messages: int, *, name: str) -> None:
    if system == "rota":
        launched(messages, name=name)
    else:
        senders.defer(system, dsn=dsn, count=messages)


def commits() -> int:
    """Commits in this database so far, by whomever. A session reports its own when it ends."""
    connection.close()
    time.sleep(0.2)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


LEFT = {
    "rota": "SELECT count(*) FROM outreach_message WHERE status IN ('due', 'claimed', 'begun')",
    "procrastinate": "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')",
    "pgqueuer": "SELECT count(*) FROM pgqueuer",
}


def unfinished(system: str) -> int:
    """Messages or jobs that are neither done nor set aside for a person."""
    with connection.cursor() as cursor:
        cursor.execute(LEFT[system])
        return int(cursor.fetchone()[0])


def killed(system: str, dsn: str, database: str, *, kills: int, say: Say) -> dict[str, Any]:
    """Kill workers in the middle, let the system recover, and count what was handed over twice or is stuck."""
    messages, chance = 60 * (kills + 1), random.Random(1)
    prepare(system, dsn, messages, name="kills")
    fields: dict[str, Any] = {"dsn": dsn, "database": database, "effect_ms": EFFECT_MS, "lease_s": LEASE_S}
    crowd = [Worker(system, **fields) for _ in range(WORKERS)]
    spares = [Worker(system, **fields).ready() for _ in range(kills)]  # a start takes longer than all the work
    for worker in crowd:
        worker.ready()
    for worker in crowd:
        worker.go()
    for _ in range(kills):
        time.sleep(0.1 + chance.random() * 0.2)
        victim = chance.choice(crowd)
        victim.kill()
        crowd[crowd.index(victim)] = fresh = spares.pop()
        fresh.go()
    for worker in crowd:
        worker.wait()
    alone = recover(system, fields)
    stuck, remedied = alone, 0
    if system == "procrastinate" and stuck:
        time.sleep(LEASE_S)
        remedied = asyncio.run(senders.retry_stalled(dsn, LEASE_S))
        stuck = recover(system, fields)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FILTER (WHERE n > 1), count(*) FROM "
            "(SELECT count(*) AS n FROM bench_effect WHERE system = %s GROUP BY number) AS each",
            [system],
        )
        duplicates, done = cursor.fetchone()
    doubt = Message.objects.in_doubt().count() if system == "rota" else 0
    told = {
        "messages": messages,
        "kills": kills,
        "duplicates": duplicates,
        "stuck": stuck,
        "never_done": messages - done,
    }
    told |= {"in_doubt_for_a_person": doubt} if system == "rota" else {}
    told |= {"stuck_without_a_task_of_the_users": alone, "retried_by_it": remedied} if system == "procrastinate" else {}
    say(f"{system} after {kills} kills: {told}")
    return told


def recover(system: str, fields: dict[str, Any]) -> int:
    """Let further workers do what is left, as leases end, until nothing is or nothing moves; return what is left."""
    until = time.monotonic() + PATIENCE_S
    while (left := unfinished(system)) and time.monotonic() < until:
        if system == "rota":
            reap()
        worker = Worker(system, **fields).ready()
        worker.go()
        worker.wait()
        if system == "procrastinate" and unfinished(system) == left:
            break
        time.sleep(0.3)
    return unfinished(system)


def ratio(ours: list[tuple[float, float]], theirs: list[tuple[float, float]]) -> float:
    """The median of the rounds' ratios: whatever else the machine did, it did to both of a round."""
    return round(statistics.median(a[0] / b[0] for a, b in zip(ours, theirs, strict=True)), 3)


def figures(measured: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "per_second": round(statistics.median(each[0] for each in measured)),
        "commits_a_message": round(statistics.median(each[1] for each in measured), 2),
    }
