"""Every road against every fault of the org: nothing is lost, nothing doubled, the newest version stands at the end.

One test for a road; inside, one cell for each fault and each call that it can meet. A newer version of some rows comes
while the first is on its way. What a cell found wrong stands in the result under its name.
"""

import time
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from crmsync.flows.deliver import deliver
from crmsync.flows.reap import reap
from crmsync.models import BulkJob, OutboxMessage
from crmsync.sandbox.faults import Kind
from tests.crmsync.rows import drain, put_many, run_sql
from tests.crmsync.sandbox_org import SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)

ROADS = ("rest", "collections", "bulk2", "bulk1")
SLOW_S = 0.6  # longer than a call may take, shorter than until it can no longer commit
CALLS = {
    "rest": {"write": ("PATCH", "/sobjects/")},
    "collections": {"write": ("PATCH", "/composite/")},
    "bulk2": {
        "create": ("POST", "/jobs/ingest"),
        "upload": ("PUT", "/jobs/ingest/"),
        "close": ("PATCH", "/jobs/ingest/"),
        "look": ("GET", "/jobs/ingest/"),
        "result": ("GET", "successfulResults"),
    },
    "bulk1": {
        "create": ("POST", "/job"),
        "upload": ("POST", "/batch"),
        "look": ("GET", "/batch/"),
        "result": ("GET", "/result"),
    },
}
OF_RESULTS = ("rows_missing", "no_charset", "no_content")
OF_JOBS = ("job_fails", "job_sticks")
SLOW = ("commit_later", "answer_late")
REFUSALS = ("unavailable", "expire_token", "unauthorized", "concurrent_limit", "daily_limit", "storage")


def cells(road: str) -> Iterator[tuple[str, str]]:
    """(fault, call): each fault at each call; what only answers with results can show, only there."""
    bulk = road.startswith("bulk")
    for fault in get_args(Kind):
        if fault in OF_JOBS:
            yield fault, "job"
        elif fault in OF_RESULTS:
            yield fault, "result" if bulk else "write"
        elif fault in SLOW and bulk:
            yield from ((fault, call) for call in ("create", "upload"))
        elif fault in REFUSALS and bulk:
            yield from ((fault, call) for call in ("create", "look"))
        else:
            yield from ((fault, call) for call in CALLS[road])


def order(org: SandboxOrg, road: str, fault: str, call: str) -> None:
    seconds = {"seconds": SLOW_S} if fault in SLOW else {}
    if fault in OF_JOBS:
        org.fault(fault, object="Contact", forever=fault == "job_sticks", rows=2)
    else:
        method, path = CALLS[road][call]
        org.fault(fault, path=path, method=method, **seconds)


def cell(org: SandboxOrg, road: str, fault: str, call: str) -> str:
    """Run one; what went wrong, or ""."""
    run_sql("UPDATE crmsync_orgstate SET bulk_paused_until = NULL, bulk_paused_reason = ''")
    rows = 1 if road == "rest" else 5
    names = [f"{road}-{fault}-{call}-{n}" for n in range(rows)]
    order(org, road, fault, call)
    put_many(names, fields=[{"last_name": "old", "title": f"T{n}"} for n in range(rows)])
    deliver(budget_s=0.01)
    put_many(names[:2], fields={"last_name": "new"})
    deliver(budget_s=0.05)
    org.ask("DELETE", "faults")
    drain(seconds=20)
    reap()
    found = sorted(
        (record["Rota_Id__c"], record["LastName"], record["Title"])
        for record in org.records("Contact")
        if record["Rota_Id__c"] in names
    )
    wanted = sorted((name, "new" if n < 2 else "old", f"T{n}") for n, name in enumerate(names))
    statuses = set(OutboxMessage.objects.filter(record__external_id__in=names).values_list("status", flat=True))
    if found != wanted:
        return f"records: {found}"
    if not statuses <= {"delivered", "superseded"}:
        return f"statuses: {statuses}"
    return "a job is unfinished" if BulkJob.objects.unfinished().exists() else ""


@pytest.mark.parametrize("road", ROADS)
def test_whatever_the_org_does_each_record_ends_once_and_newest(org: SandboxOrg, road: str, settings: Any) -> None:
    settings.CRM_ROADS = {"Contact": "collections" if road == "rest" else road}
    settings.CRM_TIMEOUT_S, settings.CRM_QUARANTINE_S, settings.CRM_LEASE_S = 0.4, 0.4, 3
    settings.CRM_PAUSE_S, settings.CRM_ATTEMPTS_MOST, settings.CRM_POLL_FIRST_MS = 0.05, 12, 10
    began = time.monotonic()
    ran = list(cells(road))
    problems = {f"{fault} at {call}": wrong for fault, call in ran if (wrong := cell(org, road, fault, call))}
    print(f"{road}: {len(ran)} cells in {time.monotonic() - began:.1f} s")
    assert problems == {}
    assert {fault for fault, _ in ran} == set(get_args(Kind))
    if road.startswith("bulk"):
        assert BulkJob.objects.filter(road=road, status="harvested").exists()
