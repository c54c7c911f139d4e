"""How long a mass update takes through outbox, lanes and workers into an org, over the shortest time possible.

The org is the sandbox org over HTTP, with the costs that the bound is computed from. Beside it, on a tenth of the rows:
the usual ways to send them, each over its own bound.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from crmsync import direct
from crmsync.gateway import connect
from tests.bench._deliverers import Deliverers, deliverers, enqueue_accounts, enqueue_contacts
from tests.bench._naive import send_all
from tests.bench._result import Bench, Say, Target, machine
from tests.bench._workloads import CHUNK, Contact, Costs, bound_s, workloads
from tests.bench.turns import throw_away_database
from tests.crmsync.sandbox_org import CREDENTIALS, SandboxOrg

AT_ONCE = 8  # calls that the org is given at once at most: the C of the bound
AIM = 1.15
SHORT_AIM = 1.5  # a fifth of the rows: beginning and end, where not all workers have work, weigh more
BASELINES = ("mild_2000", "zipf_300", "zipf_50", "one_hot")
PATIENCE = 8  # times the bound, then a run is given up


def run(*, short: bool, say: Say) -> Bench:
    rows, at_once, costs = (4_000, 4, Costs(scale=0.5)) if short else (20_000, AT_ONCE, Costs())
    workers = at_once + at_once // 4  # so that somebody can get the next chunk ready
    on = machine()
    ratios: dict[str, float] = {}
    details: dict[str, Any] = {
        "rows": rows,
        "calls_at_once": at_once,
        "workers": workers,
        "costs": vars(costs) | {"lock_wait_s": 10 * costs.scale},
        "makespans": {},
    }
    with (
        throw_away_database(say, "bench_crm") as database,
        sandbox(costs, at_once) as org,
        deliverers(database, workers) as crew,
    ):
        learn_the_pace(crew, at_once)
        for name, load in workloads(rows).items():
            makespan = makespan_of(load, crew, costs, at_once)
            ratios[name] = round(makespan["seconds"] / makespan["bound_s"], 3)
            details["makespans"][name] = makespan
            say(f"{name}: {ratios[name]:.2f} of the bound; {makespan}")
        journal = org.whole_journal()
        details["self_lock_waits"] = self_lock_waits(journal)
        ratios["self_lock_waits"] = float(details["self_lock_waits"])
        details["most_at_once"] = most_at_once(journal)
        ratios["beyond_the_pace"] = float(max(0, details["most_at_once"] - at_once))
        details["foreign"] = with_foreign_writers(rows, crew, costs, at_once, org, say)
        ratios["foreign_landed"] = details["foreign"]["landed"] / rows
        ratios["foreign_wasted"] = round(details["foreign"]["wasted"] / rows, 4)
        details["baselines_2000"] = baselines(costs, org, say, names=BASELINES[1:2] if short else BASELINES)
    aim = SHORT_AIM if short else AIM
    targets = {name: Target("<=", aim) for name in details["makespans"]}
    targets |= {"self_lock_waits": Target("<=", 0), "beyond_the_pace": Target("<=", 0)}
    targets |= {"foreign_landed": Target(">=", 1), "foreign_wasted": Target("<=", 0.05)}
    return Bench("crm", 1, ratios, targets, details, on)


class BenchOrg(SandboxOrg):
    """A sandbox org with given costs, its journal read page by page."""

    def __init__(self, directory: Path, costs: Costs) -> None:
        super().__init__(directory)
        self.arguments = ["--data", str(directory), "--port", "0", *costs.arguments()]
        for name, value in CREDENTIALS.items():
            self.arguments += [f"--{name.removeprefix('CRM_').lower().replace('_', '-')}", value]

    def whole_journal(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        while page := self.ask("GET", f"journal?after={entries[-1]['seq'] if entries else 0}")["entries"]:
            entries += page
        return entries


@contextmanager
def sandbox(costs: Costs, at_once: int) -> Iterator[BenchOrg]:
    """An org of these costs, in the settings and, for workers yet to be started, in the environment."""
    with tempfile.TemporaryDirectory() as folder:
        org = BenchOrg(Path(folder), costs)
        org.start()
        roads = {"Account": "collections", "Contact": "collections"}  # the bound is that of chunks of 200
        values = {**CREDENTIALS, "CRM_URL": org.url, "CRM_CONCURRENCY_MOST": at_once, "CRM_ROADS": roads}
        for name, value in values.items():
            setattr(settings, name, value)
            os.environ[name] = ",".join(f"{a}={b}" for a, b in value.items()) if isinstance(value, dict) else str(value)
        os.environ["LOG_LEVEL"] = "WARNING"
        try:
            yield org
        finally:
            org.stop()


def learn_the_pace(crew: Deliverers, at_once: int) -> None:
    """Until as many chunks go at once as may, as in an org that is in use; nothing is measured."""
    rows = [Contact(f"before-{n}", {}, f"before-{n}") for n in range(2 * at_once * at_once * CHUNK // 4)]
    enqueue_accounts(rows)
    crew.deliver(PATIENCE * len(rows) / CHUNK)
    learned = outcome()["concurrency"]
    assert learned >= at_once, f"the pace is {learned}"


def makespan_of(load: Sequence[Contact], crew: Deliverers, costs: Costs, at_once: int) -> dict[str, Any]:
    """Write the accounts, which is not measured, then the contacts; how long these took, and the bound."""
    bound = bound_s(load, costs, at_once)
    enqueue_accounts(load)
    crew.deliver(PATIENCE * bound)
    forget_what_is_done()
    enqueue_contacts(load)
    analyze()
    seconds = crew.deliver(PATIENCE * bound)
    return {"seconds": round(seconds, 2), "bound_s": round(bound, 2), **outcome()}


def outcome() -> dict[str, Any]:
    """How the contacts ended, how often rows were tried in vain, and what a chunk costs beside the org's own time."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FILTER (WHERE m.status = 'delivered'), count(*) FROM crmsync_outboxmessage m"
            " JOIN crmsync_crmrecord r ON r.id = m.record_id WHERE r.object = 'Contact'"
        )
        landed, rows = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM crmsync_attempt WHERE outcome <> 'delivered'")
        (wasted,) = cursor.fetchone()
        cursor.execute(
            "SELECT count(*), extract(epoch FROM avg(begun_at - claimed_at)) * 1000,"
            " extract(epoch FROM avg(ended_at - begun_at)) * 1000 FROM crmsync_claim"
        )
        chunks, before_ms, called_ms = cursor.fetchone()
        cursor.execute("SELECT coalesce(max(concurrency), 0) FROM crmsync_orgstate")
        (concurrency,) = cursor.fetchone()
    return {
        "landed": landed,
        "left": rows - landed,
        "wasted": wasted,
        "chunks": chunks,
        "claimed_to_begun_ms": round(before_ms),
        "begun_to_settled_ms": round(called_ms),
        "concurrency": round(concurrency, 1),
    }


def forget_what_is_done() -> None:
    """Attempts and claims so far; the messages stay, as they would."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM crmsync_attempt; UPDATE crmsync_lane SET claim_id = NULL; DELETE FROM crmsync_outboxmessage;"
            " DELETE FROM crmsync_claim"
        )


def analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE crmsync_outboxmessage, crmsync_crmrecord, crmsync_lane, crmsync_pile")


def self_lock_waits(journal: Sequence[dict[str, Any]]) -> int:
    """Transactions of Rota that stood behind another one of Rota in a queue for a lock."""
    ours = {entry["number"] for entry in journal if entry["who"]["client"].startswith("rota/")}
    return sum(bool(ours.intersection(entry["waited_for"])) for entry in journal if entry["number"] in ours)


def most_at_once(journal: Sequence[dict[str, Any]]) -> int:
    """How many of Rota's transactions were open in the org at one time, at most."""
    ours = [entry for entry in journal if entry["who"]["client"].startswith("rota/") and entry["committed_at"]]
    steps = [(entry["started_at"], 1) for entry in ours] + [(entry["committed_at"], -1) for entry in ours]
    return max(accumulate(step for _, step in sorted(steps)), default=0)


def with_foreign_writers(
    rows: int, crew: Deliverers, costs: Costs, at_once: int, org: BenchOrg, say: Say
) -> dict[str, Any]:
    """The same while others hold random accounts, each for longer than the org lets anybody wait for a lock."""
    load = workloads(rows, prefix="foreign-")["zipf_300"]
    enqueue_accounts(load)
    crew.deliver(60)
    forget_what_is_done()
    ids = [each["Id"] for each in org.records("Account") if each["Rota_Id__c"].startswith("foreign-")]
    habit = {"object": "Account", "count": 4, "hold_ms": 20_000, "rest_ms": 20_000, "seed": 7, "ids": ids}
    enqueue_contacts(load)
    analyze()
    org.ask("POST", "writers", habit)
    bound = bound_s(load, costs, at_once)
    seconds = crew.deliver(PATIENCE * bound)
    saves = org.ask("DELETE", "writers")
    told = {"seconds": round(seconds, 2), "bound_s": round(bound, 2), "writers": saves["stopped"], **outcome()}
    say(f"with foreign writers: {told}")
    return told


def baselines(costs: Costs, org: BenchOrg, say: Say, *, names: Sequence[str]) -> dict[str, Any]:
    """2,000 rows of each workload as they come, sorted by parent, and by one worker; each over its own bound."""
    settings.CRM_TIMEOUT_S = 60  # they wait for each other's locks, for ten seconds and more
    found: dict[str, Any] = {}
    for name in names:
        found[name] = {}
        for way in ("naive", "sorted", "serial"):
            load = workloads(2_000, prefix=f"{way}-")[name]
            make_accounts(load)
            ordered = load if way == "naive" else sorted(load, key=lambda row: row.account)
            told = send_all(ordered, workers=1 if way == "serial" else AT_ONCE, scale=costs.scale)
            ratio = told.seconds / bound_s(load, costs, AT_ONCE)
            found[name][way] = {"ratio": round(ratio, 2), "wasted": told.wasted, "landed": told.landed}
            if told.faults:
                found[name][way]["gave_up"] = told.faults[0]
            say(f"{name}, {way}: {found[name][way]}")
    return found


def make_accounts(load: Sequence[Contact]) -> None:
    keys = sorted({row.account for row in load})
    for start in range(0, len(keys), 200):
        part = [direct.Row(key, {"Name": key}) for key in keys[start : start + 200]]
        direct.write(connect(), direct.Target("Account", "upsert", "Rota_Id__c"), part, headers={})
