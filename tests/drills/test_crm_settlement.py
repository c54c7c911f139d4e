"""Postgres restarted while a worker writes down what the org said: before it could commit, and after it had.

A Postgres of its own, the worker a process of its own. Each row reaches the org once and has its one outcome.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from config.localpg import LocalPostgres
from tests.crmsync.child import environment
from tests.crmsync.rows import eventually
from tests.crmsync.sandbox_org import CREDENTIALS, ROOT, SandboxOrg

ROADS = ("collections", "bulk2")
ROWS = 3
WORKER = """
import json, django
django.setup()
from tests.crmsync.rows import drain
print(json.dumps(drain(seconds=50).as_counts()))
"""
ENQUEUE = """
SELECT count(*) FROM outbox_enqueue(
    'Contact', ARRAY['c-1', 'c-2', 'c-3'], array_fill('{"last_name": "N"}'::jsonb, ARRAY[3]),
    array_fill('[]'::jsonb, ARRAY[3]), 1::smallint)
"""
EMPTY = "TRUNCATE crmsync_outboxmessage, crmsync_crmrecord, crmsync_claim, crmsync_lane, crmsync_pile CASCADE"
# The worker has said that the org may be written, and waits for its answer, or for the end of its job.
BEGUN = {"collections": "SELECT 1 FROM crmsync_attempt", "bulk2": "SELECT 1 FROM crmsync_bulkjob WHERE looks > 1"}
WAITS = """
SELECT 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND wait_event_type = %s AND wait_event = %s
"""
OUTCOMES = """
SELECT m.status, m.attempts, a.outcome FROM crmsync_outboxmessage AS m JOIN crmsync_attempt AS a ON a.message_id = m.id
"""


class Own(LocalPostgres):
    """A Postgres that the test restarts, and asks."""

    def ask(self, statement: str, *values: object) -> list[Any]:
        with psycopg.connect(self.url(), connect_timeout=5, autocommit=True) as connection:
            answer = connection.execute(statement, values or None)
            return answer.fetchall() if answer.description else []

    def restart(self) -> None:
        self.programs.run("pg_ctl", "restart", "-w", "-m", "immediate", "-D", self.data)

    def commits_wait_for(self, standby: str) -> None:
        """Every commit waits, once it is on disk, for the word of this standby; with "" for nobody's."""
        self.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
        self.ask("SELECT pg_reload_conf()")
        shown = "SELECT 1 WHERE current_setting('synchronous_standby_names') = %s"
        eventually(lambda: self.ask(shown, standby), what="the setting is in force")


@pytest.fixture(scope="module")
def own_postgres(tmp_path_factory: pytest.TempPathFactory, org_process: SandboxOrg) -> Iterator[Own]:
    cluster = Own(project=tmp_path_factory.mktemp("settlement"), name="drill")
    cluster.start()
    env = environment(org_process, DATABASE_URL=cluster.url())
    subprocess.run([sys.executable, "manage.py", "migrate"], cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
    yield cluster
    cluster.stop()


@pytest.mark.parametrize("committed", [False, True], ids=["before it committed", "after it committed"])
@pytest.mark.parametrize("road", ROADS)
def test_a_restart_of_postgres_during_the_settlement_costs_no_row_its_outcome_and_sends_none_twice(
    org_process: SandboxOrg, own_postgres: Own, road: str, committed: bool
) -> None:
    org, database = org_process, own_postgres
    org.reset()
    database.ask(EMPTY)
    env = environment(
        org, DATABASE_URL=database.url(), CRM_ROADS=f"Contact={road}", CRM_POLL_FIRST_MS="20", **CREDENTIALS
    )
    database.ask(ENQUEUE)
    if road == "collections":
        org.stall(60)
    else:
        org.fault("job_sticks", object="Contact", forever=True)
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        eventually(lambda: database.ask(BEGUN[road]), seconds=30, what="the rows are on their way")
        with closing(psycopg.connect(database.url())) as other:
            other.execute("SELECT 1 FROM crmsync_crmrecord FOR UPDATE")
            org.stall(0)
            org.ask("DELETE", "faults")
            eventually(lambda: database.ask(WAITS, "Lock", "transactionid"), seconds=30, what="it settles")
            if committed:
                database.commits_wait_for("nobody")
                other.rollback()
                eventually(lambda: database.ask(WAITS, "IPC", "SyncRep"), seconds=30, what="it commits")
                database.ask("ALTER SYSTEM RESET synchronous_standby_names")
            database.restart()
        out, err = worker.communicate(timeout=60)
    finally:
        worker.kill()
        worker.wait(10)
    done = json.loads(out.splitlines()[-1])
    assert worker.returncode == 0, err
    assert "settle delayed" in err
    assert database.ask(OUTCOMES) == [("delivered", 1, "delivered")] * ROWS
    assert (done["delivered"], done["claims_lost"]) == ((0, 1) if committed else (ROWS, 0))
    assert len(org.records("Contact")) == org.written() == ROWS
    assert database.ask("SELECT key FROM crmsync_lane WHERE claim_id IS NOT NULL") == []
