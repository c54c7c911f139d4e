"""A mass update of a million rows in the outbox: how long a claim takes, how much memory planning takes, and how soon
the admin shows its first page.
"""

import resource
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from crmsync.moves import piles, plan
from crmsync.moves.claim import claim_next
from crmsync.moves.open_batches import with_unplanned
from crmsync.outbox import enqueue
from tests.bench._result import Bench, Say, Target, machine
from tests.bench.turns import throw_away_database

CLAIMS = 200
TARGETS = {
    "claim_p95_ms": Target("<=", 250),
    "interactive_p95_ms": Target("<=", 100),
    "planner_mb": Target("<=", 100),
    "admin_list_ms": Target("<=", 1_000),
}
ROWS = """
WITH record AS (
    INSERT INTO crmsync_crmrecord (object, external_id, version)
    SELECT 'Contact', 'c-' || n, 1 FROM generate_series(1, %(rows)s) AS n RETURNING id, external_id
)
INSERT INTO crmsync_outboxmessage (record_id, version, fields, parents, priority)
SELECT id, 1, '{"last_name": "Reyes", "title": "Head of RevOps"}',
       jsonb_build_array(jsonb_build_object('relation', 'Account', 'object', 'Account',
                                            'external_id', 'a-' || hashtext(external_id) %% %(parents)s)), 1
  FROM record
"""


def run(*, short: bool, say: Say) -> Bench:
    rows = 100_000 if short else 1_000_000
    on = machine()
    settings.CRM_ROADS = {"Contact": "collections"}
    settings.CRM_CONCURRENCY_MOST = 10_000
    with throw_away_database(say, "bench_outbox"):
        say(f"{rows:,} due rows over {rows // 10:,} parents ...")
        fill(rows)
        before = resident_mb()
        first_ms = timed(lambda: claim_next(worker="first:1"), times=20)
        say(f"a claim while nearly nothing is planned: {first_ms}")
        planned, took = plan_all()
        say(f"planned {planned:,} rows in {took:.0f} s")
        planner_mb = resident_mb() - before
        claim_ms = timed(lambda: claim_next(worker="later:1"), times=CLAIMS)
        say(f"a claim with {rows:,} planned: {claim_ms}")
        interactive_ms = timed(claim_of_a_lead, times=50)
        admin_ms = timed(admin_list(), times=5)
        say(f"a lead's claim: {interactive_ms}; the admin's list: {admin_ms}")
    details = {
        "rows": rows,
        "claim_ms": claim_ms,
        "claim_while_planning_ms": first_ms,
        "interactive_ms": interactive_ms,
        "admin_ms": admin_ms,
        "planned_per_second": round(planned / took) if took else None,
    }
    ratios = {
        "claim_p95_ms": claim_ms["p95"],
        "interactive_p95_ms": interactive_ms["p95"],
        "planner_mb": round(planner_mb, 1),
        "admin_list_ms": admin_ms["p95"],
    }
    return Bench("outbox", 1, ratios, TARGETS, details, on)


def fill(rows: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("INSERT INTO crmsync_orgstate (id, concurrency) VALUES (1, 10000)")
        cursor.execute(ROWS, {"rows": rows, "parents": rows // 10})
        cursor.execute("VACUUM ANALYZE crmsync_outboxmessage, crmsync_crmrecord")


def plan_all() -> tuple[int, float]:
    began, planned = time.perf_counter(), 0
    while True:
        with transaction.atomic(durable=True):
            assert piles.take_turn()
            some = plan.plan_some(with_unplanned())
        planned += some
        if not some:
            break
    took = time.perf_counter() - began
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE crmsync_outboxmessage, crmsync_pile")  # as autovacuum does meanwhile
    return planned, took


def claim_of_a_lead() -> None:
    with transaction.atomic():
        enqueue(object="Lead", external_id=f"l-{time.perf_counter_ns()}", fields={"email": "ada@customer.example"})
    chunk = claim_next(worker="lead:1")
    assert chunk is not None and chunk.object == "Lead"


def admin_list() -> Callable[[], Any]:
    settings.ALLOWED_HOSTS = ["*"]
    settings.SECURE_SSL_REDIRECT = False
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("bench", "bench@rota.example", "bench"))

    def look() -> None:
        answer = client.get(reverse("admin:crmsync_outboxmessage_changelist"))
        assert answer.status_code == 200

    return look


def timed(work: Callable[[], Any], *, times: int) -> dict[str, float]:
    """Milliseconds of one call: the middle, 95 of 100, and the worst."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(1000 * (time.perf_counter() - began))
    took.sort()
    return {
        "p50": round(took[times // 2], 1),
        "p95": round(took[min(times - 1, int(times * 0.95))], 1),
        "worst": round(took[-1], 1),
    }


def resident_mb() -> float:
    """The most memory this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
