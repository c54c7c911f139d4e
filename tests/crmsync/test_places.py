"""Mass chunks are made ready ahead, wait for a place, begin by the length of their pile, and leave it when answered."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from crmsync.flows import send as sending
from crmsync.flows import settling
from crmsync.flows.reap import reap
from crmsync.flows.send import send
from crmsync.gateway import connect
from crmsync.models import Attempt, BulkJob, Claim, OutboxMessage
from crmsync.moves import batches, interventions, piles, plan
from crmsync.moves import claim as claiming
from crmsync.moves.begin import begin, still_wanted
from crmsync.moves.claim import Chunk, claim_next
from crmsync.moves.open_batches import with_unplanned
from crmsync.moves.outcomes import Outcome
from crmsync.moves.pace import GOES_FIRST, has_place, leave_place
from crmsync.moves.settle import settle
from crmsync.moves.waiting import Waiting, what_waits
from tests.crmsync.piled import claim_all, put_batch, put_contacts_of, put_mass
from tests.crmsync.rows import age_claims, drain, put, run_sql
from tests.crmsync.sandbox_org import SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def two_places(settings: Any) -> None:
    settings.CRM_ROADS = {"Contact": "collections"}
    run_sql("INSERT INTO crmsync_orgstate (id, concurrency) VALUES (1, 2)")


@pytest.fixture
def chunks() -> list[Chunk]:
    """As many as may be under way and ready: of 150, 140 and 130 rows."""
    put_contacts_of({"a": 150, "b": 140, "c": 130, "d": 120})
    claimed = claim_all()
    assert [len(chunk.rows) for chunk in claimed] == [150, 140, 130]
    return claimed


def test_what_is_ready_begins_when_another_is_settled_and_not_before(chunks: list[Chunk]) -> None:
    first, second, ready = chunks
    assert begin(chunk=first) and begin(chunk=second)
    assert not has_place(token=ready.token) and not begin(chunk=ready)
    assert Claim.objects.get(token=ready.token).begun_at is None
    assert not Attempt.objects.filter(claim=ready.token).exists()
    settle(chunk=first, outcomes=[Outcome(row, crm_id=f"id-{row.message_id}") for row in first.rows])
    assert has_place(token=ready.token) and begin(chunk=ready)


def test_what_is_answered_leaves_its_place_before_it_is_settled(chunks: list[Chunk]) -> None:
    first, second, ready = chunks
    assert begin(chunk=first) and begin(chunk=second) and not begin(chunk=ready)
    leave_place(token=second.token)
    assert begin(chunk=ready)
    assert claim_next(worker="w:9") is None  # but it counts as claimed until it is settled


def test_of_those_that_are_ready_the_one_with_the_longest_pile_begins_first(chunks: list[Chunk]) -> None:
    longest, middle, shortest = chunks
    assert (longest.rank, middle.rank, shortest.rank) == (150, 140, 130)
    assert not begin(chunk=shortest)  # both places are for the two others
    assert begin(chunk=middle) and begin(chunk=longest)


def test_who_was_passed_over_begins_before_any_pile(chunks: list[Chunk]) -> None:
    run_sql("UPDATE crmsync_claim SET rank = %s WHERE token = %s", [GOES_FIRST, chunks[2].token])
    assert begin(chunk=chunks[2]) and begin(chunk=chunks[0])
    assert not begin(chunk=chunks[1])


def test_a_worker_that_died_while_it_was_ready_keeps_no_place_once_its_lease_is_over(chunks: list[Chunk]) -> None:
    assert not begin(chunk=chunks[2])
    run_sql("UPDATE crmsync_claim SET claimed_at = claimed_at - interval '1 h', lease_until = now() WHERE rank > 130")
    assert begin(chunk=chunks[2])


def test_an_interactive_message_waits_for_no_place(chunks: list[Chunk]) -> None:
    assert begin(chunk=chunks[0]) and begin(chunk=chunks[1])
    put("lead")
    urgent = claim_next(worker="w:9")
    assert urgent is not None and urgent.object == "Lead" and begin(chunk=urgent)


def test_a_chunk_that_gets_no_place_in_its_time_is_given_back_unharmed(
    org: SandboxOrg, settings: Any, chunks: list[Chunk]
) -> None:
    settings.CRM_TIMEOUT_S = 1
    assert begin(chunk=chunks[0]) and begin(chunk=chunks[1])
    assert send(chunk=chunks[2], org=connect()).put_back == 130
    claim = Claim.objects.get(token=chunks[2].token)
    assert (claim.begun_at, claim.end_reason) == (None, "released")
    messages = OutboxMessage.objects.filter(pk__in=[row.message_id for row in chunks[2].rows])
    assert set(messages.values_list("status", "attempts")) == {("pending", 0)}
    assert org.records("Contact") == []


@pytest.mark.parametrize("word", ["the org is stopped", "a parent is held", "the mass update is paused", "cancelled"])
def test_what_a_person_stops_while_it_is_ready_is_given_back_and_not_begun(org: SandboxOrg, word: str) -> None:
    batch = put_batch("file", {"a": 3})
    chunk = claim_next(worker="w:1")
    assert chunk is not None and still_wanted(chunk=chunk)
    if word == "the org is stopped":
        interventions.stop_org(by="ops", reason="look")
    elif word == "a parent is held":
        interventions.hold(key="Account:a", until=timezone.now() + timedelta(hours=1), by="ops", reason="look")
    elif word == "the mass update is paused":
        batches.pause(batch_id=batch.pk, by="ops", reason="look")
    else:
        batches.cancel(batch_id=batch.pk, by="ops", reason="look")
    assert send(chunk=chunk, org=connect()).put_back == 3
    assert Claim.objects.get(token=chunk.token).begun_at is None
    assert org.records("Contact") == [] and not Attempt.objects.exists()


def test_the_next_chunk_of_a_long_pile_goes_before_what_was_ready(chunks: list[Chunk]) -> None:
    """Its chunks can only follow one another: who is ready with less lets whoever claims it next go first."""
    put_contacts_of({"hot": 500})
    with transaction.atomic():
        assert piles.take_turn() and plan.plan_some(with_unplanned()) == 500
    assert piles.any_chain_is_open()
    run_sql("UPDATE crmsync_pile SET waiting = 200 WHERE waiting = 500")
    assert not piles.any_chain_is_open()  # it fits into one chunk


def test_a_chunk_waits_until_the_next_of_a_long_pile_had_its_chance(
    org: SandboxOrg, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [True, True, False]
    monkeypatch.setattr(sending, "any_chain_is_open", lambda: looks.pop(0))
    put_mass("Contact", ["a"], [[]])
    chunk = claim_next(worker="w:1")
    assert chunk is not None and send(chunk=chunk, org=connect()).delivered == 1
    assert looks == []


def test_a_chunk_does_not_wait_for_a_long_pile_that_nobody_claims(
    org: SandboxOrg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "any_chain_is_open", lambda: True)
    put_mass("Contact", ["a"], [[]])
    chunk = claim_next(worker="w:1")
    assert chunk is not None and send(chunk=chunk, org=connect()).delivered == 1


def test_a_pile_that_goes_by_job_is_not_made_ready(settings: Any) -> None:
    settings.CRM_ROADS = {"Contact": "bulk2"}
    run_sql("UPDATE crmsync_orgstate SET concurrency = 1")
    put_contacts_of({"a": 250})
    assert [len(chunk.rows) for chunk in claim_all()] == [250]
    put_contacts_of({"b": 250})
    assert claim_all() == []


def test_nothing_is_made_ready_while_a_job_is_under_way() -> None:
    run_sql("UPDATE crmsync_orgstate SET concurrency = 1")
    put_contacts_of({"a": 150, "b": 150})
    first = claim_next(worker="w:1")
    assert first is not None
    job = BulkJob.objects.create(claim_id=first.token, road="bulk2", object="Contact", operation="upsert", rows=1)
    assert claim_all() == []
    BulkJob.objects.filter(pk=job.pk).update(status="aborted", ended_at=Now())
    assert len(claim_all()) == 1


@pytest.mark.parametrize("passed", [False, True])
def test_a_job_that_was_claimed_all_the_same_begins_only_in_a_place(
    org: SandboxOrg, settings: Any, chunks: list[Chunk], passed: bool
) -> None:
    assert begin(chunk=chunks[0]) and begin(chunk=chunks[1])
    rank = GOES_FIRST if passed else chunks[2].rank
    job = replace(chunks[2], road="bulk1", rank=rank)
    assert send(chunk=job, org=connect()).put_back == 130
    assert not BulkJob.objects.exists()
    assert Claim.objects.get(token=job.token).begun_at is None


def test_a_pile_left_for_long_is_claimed_to_go_before_longer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    put_contacts_of({"old": 3, "hot": 198})
    with transaction.atomic():
        assert piles.take_turn() and plan.plan_some(with_unplanned())
    run_sql("UPDATE crmsync_pile SET since_at = now() - interval '2 min' WHERE lane = 'Account:old'")
    monkeypatch.setattr(claiming.random, "random", lambda: 0.0)
    chunk = claim_next(worker="w:1")
    assert chunk is not None and chunk.rows[0].parent_keys == ("Account:old",)
    assert chunk.rank == Claim.objects.get().rank == GOES_FIRST


def test_into_an_org_that_pauses_itself_only_the_probe_is_sent(org: SandboxOrg) -> None:
    put_mass("Contact", ["a"], [[]])
    chunk = claim_next(worker="w:1")
    assert chunk is not None
    run_sql("UPDATE crmsync_orgstate SET paused_until = now() + interval '1 h', paused_reason = 'limit'")
    assert send(chunk=chunk, org=connect()).put_back == 1
    run_sql("UPDATE crmsync_orgstate SET paused_until = now()")
    probe = claim_next(worker="w:1")
    assert probe is not None and probe.rank == GOES_FIRST
    assert send(chunk=probe, org=connect()).delivered == 1


@pytest.mark.parametrize("rows", [200, 201])
def test_a_chunk_leaves_early_unless_more_of_its_pile_is_to_follow(org: SandboxOrg, rows: int) -> None:
    put_mass("Contact", [f"a{n}" for n in range(rows)], [[]] * rows)
    chunk = claim_next(worker="w:1")
    assert chunk is not None and chunk.rank == rows and send(chunk=chunk, org=connect()).delivered == 200
    assert (Claim.objects.get().answered_at is not None) == (rows == 200)


def test_a_chunk_that_met_a_lock_keeps_its_place_until_that_is_written_down(org: SandboxOrg) -> None:
    put_mass("Contact", ["a"], [[]])
    drain()
    org.hold("Contact", "a")
    put_mass("Contact", ["a", "b"], [[], []])
    chunk = claim_next(worker="w:1")
    assert chunk is not None and send(chunk=chunk, org=connect()).put_back == 1
    assert Claim.objects.get(token=chunk.token).answered_at is None


def test_a_place_that_cannot_be_left_costs_no_answer(org: SandboxOrg, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Any] = []

    def gone(**given: Any) -> None:
        left.append(given)
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(settling, "leave_place", gone)
    put_mass("Contact", ["a", "b"], [[], []])
    chunk = claim_next(worker="w:1")
    assert chunk is not None and send(chunk=chunk, org=connect()).delivered == 2
    assert left == [{"token": chunk.token}]


def test_what_goes_before_the_piles_is_seen_and_so_is_a_pause() -> None:
    assert what_waits() == Waiting(sends=True, mass=True, passed=False, urgent=False)
    put("lead")
    assert what_waits().urgent
    run_sql("UPDATE crmsync_outboxmessage SET passed_at = now()")
    assert not what_waits().passed
    run_sql("UPDATE crmsync_outboxmessage SET passed_at = now() - interval '1 min'")
    assert what_waits().passed
    run_sql("UPDATE crmsync_orgstate SET mass_paused_until = now() + interval '1 h', mass_paused_reason = 'x'")
    assert (what_waits().sends, what_waits().mass) == (True, False)
    run_sql("UPDATE crmsync_orgstate SET paused_until = now() + interval '1 h', paused_reason = 'x'")
    assert not what_waits().sends


@pytest.mark.parametrize("analyzed", [True, False])
def test_what_goes_before_the_piles_is_found_by_index_at_twenty_thousand_rows(analyzed: bool) -> None:
    put_contacts_of({f"a{n}": 1 for n in range(20_000)})
    if analyzed:
        run_sql("ANALYZE crmsync_outboxmessage")
    with CaptureQueriesContext(connection) as queries:
        what_waits()
    ((plan,),) = run_sql("EXPLAIN (FORMAT JSON) " + queries[0]["sql"].replace("%", "%%"))
    assert "outbox_passed_over" in json.dumps(plan) and "outbox_due" in json.dumps(plan)


def test_a_ready_claim_is_taken_back_by_the_reaper_as_it_was(chunks: list[Chunk]) -> None:
    age_claims()
    assert reap().claims == 3
    assert set(OutboxMessage.objects.values_list("status", "attempts")) == {("pending", 0)}
