"""The whole crm cluster killed, again and again; and Postgres restarted under it, while changes keep coming.

Everything is real: django-q2's processes, a timer that does every half second what the schedule does every minute, the
sandbox org, and for the restart a Postgres of its own. In the end every row is delivered and the org holds each once.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from config.localpg import LocalPostgres
from tests.crmsync.child import environment
from tests.crmsync.rows import eventually
from tests.crmsync.sandbox_org import CREDENTIALS, ROOT, SandboxOrg
from tests.database import database_url

TIMER = """
import time, django
django.setup()
from django.db import close_old_connections, connection
from crmsync import tasks
while True:
    try:
        close_old_connections()
        tasks.reap()
        tasks.sweep()
    except Exception:
        connection.close()
    time.sleep(0.5)
"""
ENQUEUE = "SELECT 1 FROM outbox_enqueue('Lead', ARRAY[%s], ARRAY[jsonb_build_object('email', %s::text)])"


@contextlib.contextmanager
def process(arguments: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process and all its children, killed together at the end."""
    started = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env=env, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield started
    finally:
        kill_tree(started)


def kill_tree(started: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait(10)


class Outbox:
    """Changes that come from outside, and how many of them are still on their way; over outages of the database too."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sent = 0

    def put(self, count: int = 1) -> None:
        for _ in range(count):
            with (
                contextlib.suppress(psycopg.OperationalError),
                psycopg.connect(self.url, connect_timeout=3) as connection,
            ):
                connection.execute(ENQUEUE, [f"lead-{self.sent}", f"l{self.sent}@customer.example"])
            self.sent += 1

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url, connect_timeout=3) as connection:
            return connection.execute(statement).fetchall()

    def undelivered(self) -> list[tuple[object, ...]]:
        return self.rows(
            "SELECT id, status, due_at, failure_kind FROM crmsync_outboxmessage WHERE status <> 'delivered'"
        )

    def keys(self) -> list[str]:
        return sorted(str(key) for (key,) in self.rows("SELECT external_id FROM crmsync_crmrecord"))


def all_landed_once(outbox: Outbox, org: SandboxOrg, *, seconds: float) -> None:
    eventually(lambda: not outbox.undelivered(), seconds=seconds, what=f"all delivered: {outbox.undelivered()[:3]}")
    assert sorted(record["Rota_Id__c"] for record in org.records("Lead")) == outbox.keys()
    assert outbox.rows("SELECT key FROM crmsync_lane WHERE claim_id IS NOT NULL") == []


@pytest.mark.django_db(transaction=True)
def test_a_cluster_killed_three_times_loses_nothing_and_doubles_nothing(org: SandboxOrg) -> None:
    env = environment(org, Q_CLUSTER_NAME="crm")
    outbox = Outbox(database_url())
    org.stall(0.3)  # so that there always is a call to be killed in
    with process(["-c", TIMER], environment(org)):
        for _ in range(3):
            with process(["manage.py", "qcluster"], env):
                outbox.put(10)
                seen = len(org.records("Lead"))
                eventually(lambda seen=seen: len(org.records("Lead")) > seen, seconds=30, what="the cluster works")
                outbox.put(10)
                time.sleep(0.2)
        org.stall(0)
        with process(["manage.py", "qcluster"], env):
            all_landed_once(outbox, org, seconds=40)
    assert outbox.sent == 60 == len(outbox.keys())


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[LocalPostgres]:
    cluster = LocalPostgres(project=tmp_path, name="drill", settings={"fsync": "off"})
    cluster.start()
    yield cluster
    cluster.stop()


def test_a_restart_of_postgres_under_load_loses_nothing_and_doubles_nothing(
    org_process: SandboxOrg, own_postgres: LocalPostgres
) -> None:
    org = org_process
    org.reset()
    common = environment(org, DATABASE_URL=own_postgres.url(), **CREDENTIALS)
    subprocess.run(
        [sys.executable, "manage.py", "migrate"], cwd=ROOT, env=common, check=True, stdout=subprocess.DEVNULL
    )
    outbox = Outbox(own_postgres.url())
    org.stall(0.3)
    with process(["-c", TIMER], common), process(["manage.py", "qcluster"], {**common, "Q_CLUSTER_NAME": "crm"}):
        outbox.put(20)
        eventually(lambda: org.records("Lead"), seconds=30, what="the cluster works")
        for _ in range(2):
            outbox.put(20)
            own_postgres.programs.run("pg_ctl", "restart", "-w", "-m", "immediate", "-D", own_postgres.data)
            outbox.put(20)
        org.stall(0)
        all_landed_once(outbox, org, seconds=60)
    assert len(outbox.keys()) > 80
