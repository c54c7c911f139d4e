"""Nudges: one round trip, coalesced, harmless to the caller; and a real django-q2 worker runs what they put in."""

import datetime as dt
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django_q.models import OrmQ
from django_q.signing import SignedPackage

from crmsync import tasks
from crmsync.nudge import ask, nudge, nudge_on_commit
from tests.crmsync.child import environment
from tests.crmsync.rows import again, eventually, put, run_sql
from tests.crmsync.sandbox_org import ROOT, SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_nudge_is_one_statement_and_a_second_one_finds_it() -> None:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        nudge()
    assert len(queries) == 1
    nudge()
    (row,) = OrmQ.objects.all()
    task = SignedPackage.loads(row.payload)
    assert (row.key, task["func"], task["args"], task["save"]) == ("crm", "crmsync.tasks.deliver", (), False)


def test_a_nudge_is_not_swallowed_by_a_task_that_runs_already() -> None:
    nudge()
    run_sql("UPDATE django_q_ormq SET lock = lock + interval '4 minutes'")  # as django-q2 does when it takes it
    nudge()
    assert OrmQ.objects.count() == 2


def test_a_nudge_for_a_time_is_kept_once_for_that_time() -> None:
    at = dt.datetime(2999, 1, 1, tzinfo=dt.UTC)
    nudge(at=at)
    nudge(at=at)
    assert [row.lock for row in OrmQ.objects.all()] == [at]
    nudge()
    assert OrmQ.objects.count() == 2


def test_nudging_keeps_the_callers_connection() -> None:
    (before,) = run_sql("SELECT pg_backend_pid()")
    connection.settings_dict["CONN_MAX_AGE"], kept = 0, connection.settings_dict["CONN_MAX_AGE"]
    try:
        nudge()
    finally:
        connection.settings_dict["CONN_MAX_AGE"] = kept
    assert run_sql("SELECT pg_backend_pid()") == [before]


def test_a_nudge_waits_for_the_commit_and_vanishes_with_a_rollback() -> None:
    with transaction.atomic():
        nudge_on_commit()
        assert not OrmQ.objects.exists()
    assert OrmQ.objects.exists()
    OrmQ.objects.all().delete()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        nudge_on_commit()
        raise ZeroDivisionError
    assert not OrmQ.objects.exists()


def test_a_nudge_that_cannot_be_put_never_reaches_the_caller() -> None:
    run_sql("ALTER TABLE django_q_ormq RENAME TO elsewhere")
    try:
        nudge()
    finally:
        run_sql("ALTER TABLE elsewhere RENAME TO django_q_ormq")


def test_asking_for_a_task_is_never_coalesced() -> None:
    ask("routing.tasks.sweep_team", 7)
    ask("routing.tasks.sweep_team", 7)
    rows = list(OrmQ.objects.all())
    assert [row.key for row in rows] == ["default"] * 2
    assert SignedPackage.loads(rows[0].payload)["args"] == (7,)


def test_a_drain_asks_for_the_moment_at_which_something_is_due(org: SandboxOrg) -> None:
    message = put("one")
    OrmQ.objects.all().delete()
    run_sql("UPDATE crmsync_outboxmessage SET due_at = clock_timestamp() + interval '20 seconds'")
    tasks.deliver()
    assert [row.lock for row in OrmQ.objects.all()] == [again(message).due_at]


@pytest.fixture
def cluster(org: SandboxOrg) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "manage.py", "qcluster"],
        cwd=ROOT,
        env=environment(org, Q_CLUSTER_NAME="crm", Q_WORKERS="1"),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def test_a_real_worker_runs_what_a_nudge_put_into_its_queue(org: SandboxOrg, cluster: subprocess.Popen[bytes]) -> None:
    first = put("first")
    eventually(lambda: again(first).status == "delivered", seconds=30)
    eventually(lambda: not OrmQ.objects.exists(), seconds=10, what="the task is acknowledged")
    late = put("late")
    run_sql(
        "UPDATE crmsync_outboxmessage SET due_at = clock_timestamp() + interval '1 second' WHERE status = 'pending'"
    )
    eventually(lambda: again(late).status == "delivered", seconds=10)
    assert (again(late).settled_at - again(late).due_at).total_seconds() < 2  # type: ignore[operator]
