"""How many mass chunks may be under way: one more a round, half after lock failures, one cut in a window; and how large
a lane's chunks may be."""

from typing import Any

import pytest
from django.db import transaction

from crmsync.errors import Fault
from crmsync.flows.deliver import deliver
from crmsync.flows.pace import measured_pace
from crmsync.models import BulkJob, Lane, OrgState
from crmsync.moves.begin import begin
from crmsync.moves.claim import Chunk, claim_next
from crmsync.moves.pace import note_chunk, pace
from crmsync.moves.settle import Outcome, settle
from crmsync.push.planning import Pace
from tests.crmsync.piled import claim_all, put_contacts_of
from tests.crmsync.rows import age_claims, drain, put, put_many, run_sql
from tests.crmsync.sandbox_org import SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)

LOCKED = Fault("UNABLE_TO_LOCK_ROW", "unable to obtain exclusive access to this record")


@pytest.fixture(autouse=True)
def collections(settings: Any) -> None:
    settings.CRM_ROADS = {"Contact": "collections"}


def note(*, rows: int = 200, locked: int = 0, refused: bool = False) -> float:
    with transaction.atomic():
        note_chunk(rows=rows, locked=locked, refused=refused)
    return OrgState.objects.get().concurrency


def later() -> None:
    run_sql("UPDATE crmsync_orgstate SET window_at = window_at - interval '11 s', cut_at = cut_at - interval '11 s'")


def test_the_pace_of_calls_of_one_size_is_their_mean() -> None:
    """No line goes through them; a push that asks how long it will take is told all the same."""
    assert measured_pace("Contact") == Pace()
    put_contacts_of({f"a{n}": 200 for n in range(5)})
    for chunk in claim_all():
        begin(chunk=chunk)
        settle(chunk=chunk, outcomes=[Outcome(row, crm_id=f"id-{row.message_id}") for row in chunk.rows])
    run_sql("UPDATE crmsync_claim SET begun_at = ended_at - interval '2 s'")
    assert measured_pace("Contact") == Pace(call_s=0.0, row_s=pytest.approx(0.01), measured=True)


def test_it_starts_at_four_and_grows_by_one_in_a_round_of_clean_chunks(settings: Any) -> None:
    assert pace(worker="w:1").most == 4
    for _ in range(4):
        grown = note()
    assert 4.85 < grown <= 5
    for _ in range(40):
        grown = note()
    assert grown == settings.CRM_CONCURRENCY_MOST == 8


def test_one_lock_failure_in_a_hundred_rows_halves_it_once_in_a_window() -> None:
    for _ in range(40):
        note()
    later()
    assert note(rows=200, locked=2) == 4
    assert note(locked=200) == 4  # sent before the cut
    assert note(refused=True) == 4
    later()
    assert note(locked=200) == 2
    for _ in range(5):
        later()
        least = note(locked=200)
    assert least == 1


def test_a_lock_failure_in_a_thousand_rows_halves_nothing() -> None:
    for _ in range(40):
        note()
    assert note(rows=200, locked=1) == 8


def test_a_refusal_for_load_halves_it() -> None:
    assert note(refused=True) == 2


def test_no_more_mass_chunks_are_claimed_than_may_be_under_way_or_ready_and_interactive_ones_are() -> None:
    put_contacts_of(dict.fromkeys("abcdefg", 150))
    assert len(claim_all()) == 4 + 1
    put("lead")
    assert claim_next(worker="w:9") is not None
    assert claim_next(worker="w:9") is None


def test_a_dead_worker_takes_no_room_once_its_lease_is_over() -> None:
    run_sql("INSERT INTO crmsync_orgstate (id, concurrency) VALUES (1, 1)")
    put_contacts_of(dict.fromkeys("abcd", 150))
    assert len(claim_all()) == 1 + 1
    age_claims()
    assert len(claim_all()) == 1 + 1


def fail(chunk: Chunk, fault: Fault | None) -> None:
    begin(chunk=chunk)
    settle(chunk=chunk, outcomes=[Outcome(row, crm_id="x", fault=fault) for row in chunk.rows])
    run_sql("UPDATE crmsync_outboxmessage SET due_at = now() WHERE status = 'pending'")
    run_sql("UPDATE crmsync_lane SET not_before = now()")


def test_a_lock_failure_halves_the_chunks_of_that_parent_and_five_clean_ones_add_a_quarter(settings: Any) -> None:
    settings.CRM_ATTEMPTS_MOST = 50
    put_contacts_of({"hot": 900, "calm": 10})
    chunk = claim_next(worker="w:1")
    assert chunk is not None and len(chunk.rows) == 200
    fail(chunk, LOCKED)
    sizes = []
    for _ in range(6):
        chunk = claim_next(worker="w:1")
        assert chunk is not None
        sizes.append(len(chunk.rows))
        fail(chunk, None)
    assert sizes == [100, 100, 100, 100, 100, 125]
    hot, calm = Lane.objects.get(key="Account:hot"), Lane.objects.filter(key="Account:calm").first()
    assert (hot.failures, hot.most_rows) == (0, 125)
    assert calm is None or calm.most_rows == 200


def test_lock_failures_are_noticed_by_the_pace_of_all_workers(settings: Any) -> None:
    settings.CRM_ATTEMPTS_MOST = 50
    put_contacts_of({"hot": 300})
    chunk = claim_next(worker="w:1")
    assert chunk is not None
    fail(chunk, LOCKED)
    assert OrgState.objects.get().concurrency == 2


@pytest.mark.parametrize("road", ["bulk2", "bulk1"])
def test_a_job_that_the_org_put_back_halves_it_although_every_row_arrived(
    org: SandboxOrg, settings: Any, road: str
) -> None:
    settings.CRM_ROADS = {"Contact": road}
    put_many([f"a{n}" for n in range(250)])
    drain(seconds=20)
    assert OrgState.objects.get().concurrency > 4, "a job that nothing happened to"
    run_sql("UPDATE crmsync_orgstate SET concurrency = 4")
    org.facts(bulk2_batch_s=0.0001, bulk1_batch_s=0.0001, bulk_requeue_s=0)
    put_many([f"b{n}" for n in range(250)])
    done = drain(seconds=20)
    assert (done.delivered, done.put_back, BulkJob.objects.latest("pk").retries) == (250, 0, 1)
    assert OrgState.objects.get().concurrency == 2


def test_rows_of_a_job_that_failed_for_locks_halve_it(org: SandboxOrg, settings: Any) -> None:
    put("acme", object="Account", name="Acme")
    drain()
    settings.CRM_ROADS = {"Contact": "bulk2"}
    run_sql("UPDATE crmsync_orgstate SET concurrency = 4")
    hold = org.hold("Account", "acme")
    put_many([f"a{n}" for n in range(98)])
    put_many(["x", "y"], account="acme")
    while not BulkJob.objects.filter(status="harvested").exists():
        deliver(budget_s=0.01)
    job = BulkJob.objects.get()
    assert (job.rows, job.failed, job.retries) == (100, 2, 0)
    assert OrgState.objects.get().concurrency == 2
    org.let_go(hold)
    drain(seconds=20)
