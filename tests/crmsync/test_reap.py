"""Workers that die, and workers that come back too late."""

import time
from typing import Any

import pytest
from django.db.models import F

from crmsync.errors import ClaimLost, Fault
from crmsync.flows.deliver import deliver
from crmsync.flows.reap import reap
from crmsync.gateway import Org, connect
from crmsync.models import Attempt, Claim, Lane, OutboxMessage
from crmsync.moves.begin import begin, release
from crmsync.moves.claim import Chunk, claim_next
from crmsync.moves.settle import Outcome, settle
from tests.crmsync.rows import again, age_claims, drain, put, put_contacts, run_sql, statuses
from tests.crmsync.sandbox_org import SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)


def claimed(worker: str = "late:1") -> Chunk:
    chunk = claim_next(worker=worker)
    assert chunk is not None
    return chunk


def everything() -> list[list[tuple[object, ...]]]:
    tables = ("crmsync_outboxmessage", "crmsync_claim", "crmsync_lane", "crmsync_attempt", "crmsync_crmrecord")
    return [run_sql(f"SELECT * FROM {table} ORDER BY 1") for table in tables]


def test_a_living_claim_is_left_alone(org: SandboxOrg) -> None:
    put()
    claimed()
    assert reap().claims == 0


def test_a_claim_that_never_began_goes_back_at_once_and_charges_nothing(org: SandboxOrg) -> None:
    message = put("one")
    claimed()
    age_claims()
    assert reap().put_back == 1
    assert (again(message).status, again(message).attempts) == ("pending", 0)
    assert Lane.objects.get(key="Lead:one").quarantined_until is None
    assert drain().delivered == 1


def test_a_claim_that_began_closes_its_lanes_until_its_call_can_no_longer_commit(
    org: SandboxOrg, settings: Any
) -> None:
    settings.CRM_QUARANTINE_S = 5
    put("a", object="Account", name="A")
    drain()
    (message,) = put_contacts("a", 1)
    chunk = claimed()
    begin(chunk=chunk)
    Claim.objects.live().update(
        lease_until=F("claimed_at") + (F("lease_until") - F("claimed_at")) / 1_000_000
    )  # expired, but begun just now
    assert (reap().begun, again(message).status) == (1, "pending")
    lane = Lane.objects.get(key="Account:a")
    begun_at = Claim.objects.get(token=chunk.token).begun_at
    assert lane.quarantined_until is not None and begun_at is not None
    assert 7.9 < (lane.quarantined_until - begun_at).total_seconds() < 8.5
    assert again(message).due_at >= lane.quarantined_until.replace(microsecond=0)
    assert claim_next(worker="eager") is None
    assert list(Attempt.objects.filter(claim=chunk.token).values_list("outcome", flat=True)) == ["unanswered"]


def test_silence_too_often_is_a_dead_letter_of_its_own_kind_and_no_lock_failure(org: SandboxOrg) -> None:
    message = put("poison")
    for _ in range(3):
        run_sql("UPDATE crmsync_outboxmessage SET due_at = now()")
        run_sql("UPDATE crmsync_lane SET quarantined_until = NULL")
        begin(chunk=claimed())
        age_claims()
        reap()
    assert (again(message).status, again(message).failure_kind) == ("dead", "unanswered")
    assert not OutboxMessage.objects.lock_failures().exists()


@pytest.mark.parametrize("begun", [False, True])
def test_whoever_settles_after_the_reaper_changes_nothing(org: SandboxOrg, begun: bool) -> None:
    put("one")
    late = claimed()
    if begun:
        begin(chunk=late)
    age_claims()
    reap()
    before = everything()
    for outcome in (Outcome(late.rows[0], crm_id="00Q1"), Outcome(late.rows[0], fault=Fault("UNABLE_TO_LOCK_ROW"))):
        with pytest.raises(ClaimLost):
            settle(chunk=late, outcomes=[outcome])
    with pytest.raises(ClaimLost):
        begin(chunk=late)
    with pytest.raises(ClaimLost):
        release(chunk=late, because=Fault("x"), dice=0)
    assert everything() == before


def test_whoever_settles_after_another_has_sent_it_changes_nothing(org: SandboxOrg) -> None:
    message = put("one")
    late = claimed()
    begin(chunk=late)
    age_claims()
    reap()
    assert drain().delivered == 1
    before = everything()
    with pytest.raises(ClaimLost):
        settle(chunk=late, outcomes=[Outcome(late.rows[0], fault=Fault("FIELD_CUSTOM_VALIDATION_EXCEPTION"))])
    assert everything() == before
    assert again(message).status == "delivered"


def test_a_lease_that_would_not_outlast_the_call_is_not_begun(org: SandboxOrg) -> None:
    put()
    chunk = claimed()
    Claim.objects.update(lease_until=F("claimed_at") + (F("lease_until") - F("claimed_at")) / 3)
    with pytest.raises(ClaimLost):
        begin(chunk=chunk)
    assert not Attempt.objects.exists()


def test_a_version_that_came_while_the_dead_worker_sent_takes_the_fields_over(org: SandboxOrg) -> None:
    old = put("one", email="old@x.example", phone="1")
    begin(chunk=claimed())
    new = put("one", email="new@x.example")
    age_claims()
    reap()
    assert statuses([old, new]) == ["superseded", "pending"]
    drain()
    (record,) = org.records("Lead")
    assert (record["Email"], record["Phone"]) == ("new@x.example", "1")


class Sleeper(Org):
    """A connection whose worker is stopped between `begin` and the call, for longer than the call may take."""

    def call(self, *args: Any, **more: Any) -> Any:
        not_after = self.wire.not_after
        assert not_after is not None
        age_claims()
        reap()
        put("one", email="new@x.example")
        drain(worker="other")
        time.sleep(max(0.0, not_after - time.monotonic()))
        return super().call(*args, **more)


def test_a_worker_that_sleeps_between_begin_and_call_sends_nothing_stale_when_it_wakes(
    org: SandboxOrg, settings: Any
) -> None:
    settings.CRM_TIMEOUT_S = 2
    put("one", email="old@x.example")
    done = deliver(budget_s=0.01, worker="sleeper", org=Sleeper(connect().address))
    assert done.claims_lost == 1
    (record,) = org.records("Lead")
    assert record["Email"] == "new@x.example"
    assert [entry["who"]["client"] for entry in org.journal()] == ["rota/other"]


def test_idle_lanes_and_claims_that_never_began_are_pruned(org: SandboxOrg) -> None:
    put("one")
    claimed()
    age_claims()
    reap()
    run_sql("UPDATE crmsync_lane SET not_before = now() - interval '1 hour'")
    run_sql(
        "UPDATE crmsync_claim SET ended_at = now() - interval '2 days', claimed_at = now() - interval '3 days',"
        " lease_until = now() - interval '2 days'"
    )
    found = reap()
    assert (found.lanes_pruned, found.claims_pruned) == (1, 1)
    assert drain().delivered == 1
