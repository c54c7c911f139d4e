"""The CRM stops answering for ten seconds in the middle of a burst: senders notice nothing, and every lead still lands.

About a minute and a half on a whole Rota of its own. Thirty leads arrive within a second while all is well, and thirty
more while the org stalls. Compared are the answers of the webhook and the connections to Postgres: a stall must not
make requests wait, nor keep a transaction open that others queue behind.
"""

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from config.demo.burst import Answer, send
from config.demo.leads import built_in, percentiles
from config.demo.stage import stage

Say = Callable[[str], None]
STALL_S = 10
LANDED_S = 60
EVENTS = 30


def run(*, short: bool, seed: int, say: Say) -> dict[str, Any]:
    """Do it and return the figures in the form of every drill; `short` has one round instead of three."""
    began = time.monotonic()
    rounds = 1 if short else 3
    calm: list[Answer] = []
    stalled: list[Answer] = []
    peaks = {"calm": 0, "stalled": 0}
    with stage(say=say) as (address, environment), psycopg.connect(environment["DATABASE_URL"], autocommit=True) as db:
        (secret,) = db.execute("SELECT secret FROM routing_inboundsource WHERE slug = 'web'").fetchone() or ("",)
        org = f"http://127.0.0.1:{environment['SANDBOX_PORT']}"
        burst(address, secret, db)  # everything is awake now
        for number in range(1, rounds + 1):
            say(f"round {number}: thirty leads while all is well ...")
            answers, peaks["calm"] = burst(address, secret, db, most=peaks["calm"])
            calm += answers
            landed(db)
            say(f"round {number}: thirty more while the org stalls for {STALL_S} s ...")
            post(f"{org}/__admin/stall", {"seconds": STALL_S})
            answers, peaks["stalled"] = burst(address, secret, db, most=peaks["stalled"])
            stalled += answers
            post(f"{org}/__admin/stall", {"seconds": 0})
            landed(db)
        left = landed(db)
        with urllib.request.urlopen(f"{org}/__admin/records/Lead", timeout=10) as answer:
            records = len(json.load(answer)["records"])
    wanted = EVENTS * (2 * rounds + 1)
    before, during = (percentiles([answer.ms for answer in some])["p95"] or 0.0 for some in (calm, stalled))
    checks = {
        "answered_201": check(sum(one.status == 201 for one in calm + stalled), 2 * rounds * EVENTS, exactly=True),
        "webhook_p95_ms": check(during, round(1.5 * before + 20, 1)),
        "connections": check(peaks["stalled"], peaks["calm"] + 1),
        "rows_not_delivered": check(left, 0),
        "records_in_the_org": check(records, wanted, exactly=True),
    }
    return {
        "drill": "org_stall",
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "webhook_p95_ms": {"calm": before, "stalled": during},
        "connections": peaks,
        "checks": checks,
        "ok": all(one["ok"] for one in checks.values()),
    }


def burst(address: str, secret: str, db: psycopg.Connection[Any], *, most: int = 0) -> tuple[Sequence[Answer], int]:
    """Thirty leads over a second; the answers, and the most connections seen at a time (at least `most`)."""
    done = threading.Event()
    peak = [most]

    def watch() -> None:
        while not done.wait(0.02):
            row = db.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()").fetchone()
            peak[0] = max(peak[0], row[0] if row else 0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        answers, failures = send(
            url=f"{address}/in/web", secret=secret, events=built_in(EVENTS), connections=EVENTS, over_s=1
        )
    finally:
        done.set()
        watcher.join()
    if failures:
        raise RuntimeError(f"The webhook could not be reached: {failures[0]}")
    return answers, peak[0]


def landed(db: psycopg.Connection[Any]) -> int:
    """Wait until every outbox row is final, a minute at most; how many are not delivered."""
    until = time.monotonic() + LANDED_S
    open_rows = "SELECT count(*) FROM crmsync_outboxmessage WHERE status IN ('pending', 'claimed')"
    while (row := db.execute(open_rows).fetchone()) and row[0] and time.monotonic() < until:
        time.sleep(0.1)
    row = db.execute("SELECT count(*) FROM crmsync_outboxmessage WHERE status <> 'delivered'").fetchone()
    return int(row[0]) if row else 0


def post(url: str, body: dict[str, Any]) -> None:
    request = urllib.request.Request(
        url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=10):
        pass


def check(value: float, limit: float, *, exactly: bool = False) -> dict[str, Any]:
    """One line of the result: at most the limit, or exactly it."""
    return {
        "value": value,
        "limit": f"= {limit}" if exactly else f"<= {limit}",
        "ok": value == limit if exactly else value <= limit,
    }
