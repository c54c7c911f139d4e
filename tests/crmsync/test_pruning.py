"""Old messages go; what anybody may still ask for stays."""

from typing import Any

import pytest

from crmsync.errors import Fault
from crmsync.flows.prune import prune
from crmsync.models import Attempt, Batch, Claim, OutboxMessage
from crmsync.moves.begin import begin
from crmsync.moves.claim import claim_next
from crmsync.moves.retry import retry_dead
from crmsync.moves.settle import Outcome, settle
from tests.crmsync.push.test_cancelling import batch_of
from tests.crmsync.rows import put, run_sql

pytestmark = pytest.mark.django_db(transaction=True)


def send(code: str = "") -> None:
    chunk = claim_next(worker="w")
    assert chunk is not None
    begin(chunk=chunk)
    settle(chunk=chunk, outcomes=[Outcome(row, fault=Fault(code) if code else None) for row in chunk.rows])


def age(days: int = 40) -> None:
    run_sql(f"UPDATE crmsync_outboxmessage SET settled_at = settled_at - interval '{days} days'")
    run_sql(f"UPDATE crmsync_batch SET settled_at = settled_at - interval '{days} days'")


def left() -> set[int]:
    return set(OutboxMessage.objects.values_list("pk", flat=True))


def test_what_settled_long_ago_goes_with_its_attempts_and_the_newest_of_each_record_stays() -> None:
    for value in "abc":
        newest = put("one", phone=value)
        send()
    age()
    young = [put("two", phone="a"), put("two", phone="b")]
    assert prune(budget_s=5, step=1).as_counts() == {"messages": 2, "round": True}
    assert left() == {newest.pk, *(message.pk for message in young)}
    assert (Attempt.objects.count(), Claim.objects.count()) == (1, 1)


def test_a_chain_of_versions_goes_from_its_old_end_and_only_with_what_it_went_into() -> None:
    put("one", phone="a")
    put("one", phone="b")
    last = put("one", phone="c")
    send()
    age()
    prune(budget_s=5)
    prune(budget_s=5)  # the second round finds what the first has left without a predecessor
    assert left() == {last.pk}


def test_a_dead_message_stays_and_so_does_all_that_it_must_be_compared_with() -> None:
    dead = put("one", phone="a")
    send("FIELD_CUSTOM_VALIDATION_EXCEPTION")
    put("one", phone="b")
    send()
    newest = put("one", email="x@y.example")
    send()
    age()
    assert prune(budget_s=5).messages == 0
    assert retry_dead(message_ids=[dead.pk], by="ops", reason="r").skipped_newer == 1
    age()
    prune(budget_s=5)
    assert left() == {newest.pk}


def test_the_rows_of_a_mass_update_stay_as_long_as_its_verdicts_are_kept(settings: Any) -> None:
    settings.CRM_KEEP_BATCH_DAYS = 90
    batch = batch_of("one")
    send()
    put("one", object="Contact", phone="1")
    send()
    run_sql("UPDATE crmsync_batch SET settled_at = now()")
    age(40)
    assert prune(budget_s=5).messages == 0
    age(60)
    assert prune(budget_s=5).messages == 1
    assert not Batch.objects.get(pk=batch.pk).messages.exists()
