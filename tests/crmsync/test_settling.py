"""What the org said of rows is written down although the database drops the connection: before the settlement, in the
midst of it, more than once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection

from crmsync.flows import settling
from crmsync.flows.deliver import Delivery, deliver
from crmsync.gateway import Org, connect
from crmsync.models import Attempt, BulkJob, Claim, Lane, OutboxMessage
from crmsync.moves.org import was_well
from tests.crmsync.locks import row_locked
from tests.crmsync.rows import drain, eventually, put_many, run_sql
from tests.crmsync.sandbox_org import SandboxOrg
from tests.database import database_url

pytestmark = pytest.mark.django_db(transaction=True)

LAST_ANSWER = {"collections": "composite/sobjects", "bulk2": "unprocessedrecords", "bulk1": "/request"}
ROADS = tuple(LAST_ANSWER)


@pytest.fixture(params=ROADS)
def road(request: pytest.FixtureRequest, settings: Any) -> str:
    settings.CRM_ROADS = {"Contact": request.param}
    return str(request.param)


class Cutting(Org):
    """A connection to the org; when the last answer before the settlement has come, the database is gone."""

    def __init__(self, road: str) -> None:
        super().__init__(connect().address)
        self.at, self.cuts = LAST_ANSWER[road], 0

    def call(self, method: str, path: str, *given: Any, **more: Any) -> Any:
        return self.cut(path, super().call(method, path, *given, **more))

    def send(self, method: str, path: str, **more: Any) -> bytes:
        return bytes(self.cut(path, super().send(method, path, **more)))

    def cut(self, path: str, answer: Any) -> Any:
        if self.at in path and not self.cuts:
            self.cuts += 1
            ((pid,),) = run_sql("SELECT pg_backend_pid()")
            terminate(pid)
        return answer


def terminate(pid: int) -> None:
    with psycopg.connect(database_url()) as other:
        assert other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid]).fetchone() == (True,)


def deliver_until_cut(org: Cutting) -> Delivery:
    """Deliver, job steps at once, until the database has been gone; what the last drain did."""
    for _ in range(50):
        done = deliver(budget_s=0.01, org=org)
        if org.cuts:
            return done
        run_sql("UPDATE crmsync_bulkjob SET look_at = now()")
    raise AssertionError("The last answer never came.")


def settled_once(org: SandboxOrg, keys: list[str]) -> None:
    """Each row is delivered, by its first and only try; the org got it once; nothing is held any more."""
    assert set(OutboxMessage.objects.values_list("status", "attempts")) == {("delivered", 1)}
    assert list(Attempt.objects.values_list("outcome", flat=True)) == ["delivered"] * len(keys)
    assert len(org.records("Contact")) == org.written() == len(keys)
    assert list(Claim.objects.values_list("end_reason", flat=True)) == ["settled"]
    assert not Lane.objects.filter(claim__isnull=False).exists()
    assert set(BulkJob.objects.values_list("status", "reads")) <= {("harvested", 0)}
    assert was_well()


def test_control_without_a_second_try_the_answer_is_lost(
    org: SandboxOrg, road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "PAUSES_S", ())
    put_many(["a", "b", "c"])
    cutting = Cutting(road)
    with pytest.raises(OperationalError):
        deliver_until_cut(cutting)
    connection.close()
    assert len(org.records("Contact")) == 3
    assert set(OutboxMessage.objects.values_list("status", flat=True)) == {"claimed"}


def test_a_connection_lost_before_the_settlement_is_made_anew_and_nothing_is_sent_twice(
    org: SandboxOrg, road: str
) -> None:
    put_many(["a", "b", "c"])
    cutting = Cutting(road)
    done = deliver_until_cut(cutting)
    assert (cutting.cuts, done.delivered, done.claims_lost) == (1, 3, 0)
    settled_once(org, ["a", "b", "c"])


@contextmanager
def working(worker: str) -> Iterator[dict[str, Any]]:
    """A worker in a thread; what it did, once it is done, by `done`."""
    found: dict[str, Any] = {}

    def work() -> None:
        try:
            found["done"] = drain(worker=worker, seconds=40)
        except BaseException as error:
            found["error"] = error
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    yield found
    thread.join(60)
    assert not thread.is_alive()


SETTLING = """
SELECT pid FROM pg_stat_activity
 WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%%FROM crmsync_crmrecord%%'
   AND NOT pid = ANY (%s)
"""


def test_a_settlement_killed_in_its_midst_is_made_again_whole_until_it_holds(org: SandboxOrg, road: str) -> None:
    put_many(["a", "b", "c"])
    if road == "collections":
        org.stall(30)
    else:
        org.fault("job_sticks", object="Contact", forever=True)
    killed: list[int] = []
    with working("victim:1") as found:
        begun = Attempt.objects.all() if road == "collections" else BulkJob.objects.filter(status="polling")
        eventually(begun.exists, seconds=30, what="the rows are on their way")
        with row_locked("crmsync_crmrecord", "external_id = 'b'"):
            org.stall(0)
            org.ask("DELETE", "faults")
            for _ in range(3):
                ((pid,),) = eventually(lambda: run_sql(SETTLING, [killed]), seconds=30, what="it settles")
                terminate(pid)
                killed.append(pid)
                assert set(OutboxMessage.objects.values_list("status", flat=True)) == {"claimed"}
                assert not Claim.objects.filter(ended_at__isnull=False).exists()
    assert "error" not in found, found["error"]
    assert (found["done"].delivered, found["done"].claims_lost, len(set(killed))) == (3, 0, 3)
    settled_once(org, ["a", "b", "c"])
