"""A worker killed with SIGKILL at every point between claim and settle; then another reaps and delivers.

The points need no hooks in the product. A table lock held by the test stops the worker before a statement; a stalled
org or a record lock held in it stops the worker inside its call. After each kill every row must end delivered and the
org must hold each record once, with its newest values.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from crmsync.flows.reap import reap
from crmsync.models import Attempt, Claim, Lane, OutboxMessage
from tests.crmsync.child import PROGRAM, environment
from tests.crmsync.locks import somebody_waits_for, table_locked
from tests.crmsync.rows import age_claims, drain, eventually, put, put_contacts, run_sql
from tests.crmsync.sandbox_org import ROOT, SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)

Worker = subprocess.Popen[bytes]


@contextmanager
def victim(org: SandboxOrg, **patience: str) -> Iterator[Worker]:
    worker = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=environment(org, **{"CRM_TIMEOUT_S": "20", "CRM_LEASE_S": "60", **patience}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield worker
    finally:
        kill(worker)


def kill(worker: Worker) -> None:
    if worker.poll() is None:
        os.kill(worker.pid, signal.SIGKILL)
    worker.wait(10)


@pytest.fixture
def rows(org: SandboxOrg) -> list[OutboxMessage]:
    put("acme", object="Account", name="Acme")
    drain()
    return put_contacts("acme", 3)


def everything_lands(org: SandboxOrg, rows: list[OutboxMessage]) -> None:
    age_claims()
    reap()
    drain(seconds=20)
    assert not OutboxMessage.objects.exclude(status="delivered").exists()
    assert sorted(record["Rota_Id__c"] for record in org.records("Contact")) == sorted(
        message.record.external_id for message in rows
    )
    assert not Claim.objects.live().exists()
    assert not Lane.objects.filter(claim__isnull=False).exists()
    assert not Attempt.objects.filter(ended_at__isnull=True).exists()


@pytest.mark.parametrize(
    ("table", "mode", "claims", "begun"),
    [
        ("crmsync_lane", "EXCLUSIVE", 0, 0),  # before its lanes exist
        ("crmsync_claim", "EXCLUSIVE", 0, 0),  # inside the claim's transaction
        ("crmsync_attempt", "EXCLUSIVE", 1, 0),  # claimed, and inside `begin`
    ],
)
def test_killed_before_the_call(
    org: SandboxOrg, rows: list[OutboxMessage], table: str, mode: str, claims: int, begun: int
) -> None:
    with table_locked(table, mode), victim(org) as worker:
        somebody_waits_for(table)
        kill(worker)
    assert Claim.objects.live().count() == claims
    assert Claim.objects.live().filter(begun_at__isnull=False).count() == begun
    everything_lands(org, rows)
    assert len([entry for entry in org.journal() if "Contact" in entry["objects"]]) == 1


def in_a_call(org: SandboxOrg) -> Callable[[], bool]:
    return lambda: Claim.objects.live().filter(begun_at__isnull=False).exists()


def test_killed_in_the_call_before_the_org_did_anything(org: SandboxOrg, rows: list[OutboxMessage]) -> None:
    org.stall(60)
    with victim(org) as worker:
        eventually(in_a_call(org), seconds=30)
        kill(worker)
    org.stall(0)  # what the dead worker had sent is carried out now
    everything_lands(org, rows)


def test_a_stalled_org_keeps_no_transaction_open_and_producers_do_not_notice(
    org: SandboxOrg, rows: list[OutboxMessage]
) -> None:
    org.stall(60)
    with victim(org) as worker:
        eventually(in_a_call(org), seconds=30)
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        eventually(lambda: run_sql(f"SELECT state {others}") == [("idle",)], what="one idle connection")
        newer = put(rows[0].record.external_id, object="Contact", account="acme", last_name="Newer")
        assert newer.version == 2  # a record in flight takes a newer version at once
        assert worker.poll() is None
        org.stall(0)
        eventually(lambda: not OutboxMessage.objects.open().exists(), seconds=30)
    names = {record["Rota_Id__c"]: record["LastName"] for record in org.records("Contact")}
    assert names[rows[0].record.external_id] == "Newer"


def test_killed_in_the_call_while_the_org_waits_for_a_lock(org: SandboxOrg, rows: list[OutboxMessage]) -> None:
    hold = org.hold("Account", "acme")
    with victim(org) as worker:
        eventually(lambda: any(lock["waiting"] for lock in org.ask("GET", "locks")["locks"]), seconds=30)
        kill(worker)
    org.let_go(hold)
    everything_lands(org, rows)


def test_killed_when_the_org_has_committed_and_the_answer_is_lost(org: SandboxOrg, rows: list[OutboxMessage]) -> None:
    org.fault("commit_then_close")
    with table_locked("crmsync_crmrecord", "EXCLUSIVE"), victim(org) as worker:
        somebody_waits_for("crmsync_crmrecord")  # it settles the lost answer
        kill(worker)
    assert len(org.records("Contact")) == len(rows)
    everything_lands(org, rows)


@pytest.mark.parametrize(
    "table",
    [
        "crmsync_claim",
        "crmsync_crmrecord",
        "crmsync_outboxmessage",
        "crmsync_attempt",
        "crmsync_lane",
        "crmsync_orgstate",
    ],
)
def test_killed_while_settling(org: SandboxOrg, rows: list[OutboxMessage], table: str) -> None:
    """The org has committed and answered; the worker dies inside its last transaction, before each of its tables."""
    run_sql("INSERT INTO crmsync_orgstate (id, failures) VALUES (1, 1)")  # so that there is something to write there
    org.stall(60)
    with victim(org) as worker:
        eventually(in_a_call(org), seconds=30)
        with table_locked(table, "EXCLUSIVE"):
            org.stall(0)
            somebody_waits_for(table)
            kill(worker)
    assert len(org.records("Contact")) == len(rows)
    assert Claim.objects.live().count() == 1
    everything_lands(org, rows)


def test_stopped_for_longer_than_its_lease_it_changes_nothing_when_it_wakes(
    org: SandboxOrg, rows: list[OutboxMessage]
) -> None:
    org.stall(60)
    with victim(org) as worker:
        eventually(in_a_call(org), seconds=30)
        os.kill(worker.pid, signal.SIGSTOP)
        org.stall(0)
        eventually(lambda: len(org.records("Contact")) == len(rows))
        put("acme-0", object="Contact", account="acme", last_name="Newer")
        everything_lands_newest(org)
        os.kill(worker.pid, signal.SIGCONT)
        assert worker.wait(30) == 0
    assert not OutboxMessage.objects.filter(status="claimed").exists()
    names = {record["Rota_Id__c"]: record["LastName"] for record in org.records("Contact")}
    assert names["acme-0"] == "Newer"
    assert list(Claim.objects.filter(worker="victim").values_list("end_reason", flat=True)) == ["expired"]


def everything_lands_newest(org: SandboxOrg) -> None:
    age_claims()
    reap()
    drain(seconds=20)
    assert not OutboxMessage.objects.open().exists()
