"""A paused mass update costs nobody anything, however many rows of it wait; resumed, it goes on where it was."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from config.home import numbers
from crmsync import outbox
from crmsync.flows.push import cancel
from crmsync.flows.reap import reap
from crmsync.models import OutboxMessage, Pile
from crmsync.moves import batches, piles, plan
from crmsync.moves.claim import claim_next
from crmsync.moves.open_batches import with_unplanned
from crmsync.moves.settle import Outcome, settle
from crmsync.tasks import sweep
from tests.crmsync.piled import claim_all, put_batch, put_contacts_of, sizes_of
from tests.crmsync.rows import put, run_sql

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 6_000
FEW = 100


@pytest.fixture(autouse=True)
def room(settings: Any) -> None:
    settings.CRM_CONCURRENCY_MOST = 100
    settings.CRM_ROADS = {"Contact": "collections"}
    run_sql("INSERT INTO crmsync_orgstate (id, concurrency) VALUES (1, 100)")


def pause(batch: Any) -> None:
    assert batches.pause(batch_id=batch.pk, by="ops", reason="wait")


def resume(batch: Any) -> None:
    assert batches.resume(batch_id=batch.pk, by="ops", reason="go")


def plan_all() -> None:
    while True:
        with transaction.atomic():
            assert piles.take_turn()
            if not plan.plan_some(with_unplanned()):
                return


READ = """
SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int FROM pg_stat_user_tables
 WHERE relname IN ('crmsync_outboxmessage', 'crmsync_pile')
"""


def rows_read(work: Callable[[], Any]) -> tuple[int, Any]:
    """How many messages and piles were read by index or scan meanwhile, and what came of the work."""
    run_sql("SELECT pg_stat_force_next_flush()")
    ((before,),) = run_sql(READ)
    result = work()
    run_sql("SELECT pg_stat_force_next_flush()")
    ((after,),) = run_sql(READ)
    return after - before, result


@pytest.mark.parametrize("sizes", [{"": MANY}, {f"a{n}": 2 for n in range(MANY // 2)}], ids=["one pile", "many piles"])
@pytest.mark.parametrize("planned", [True, False], ids=["planned", "unplanned"])
def test_not_a_row_of_a_paused_mass_update_is_read_and_the_work_of_others_is_found_at_once(
    planned: bool, sizes: dict[str, int]
) -> None:
    large = put_batch("large", sizes)
    if planned:
        plan_all()
    pause(large)
    run_sql("ANALYZE crmsync_outboxmessage, crmsync_crmrecord, crmsync_pile, crmsync_lane")
    put_contacts_of({"x": 1})
    put_batch("small", {"y": 1})
    read, chunk = rows_read(lambda: claim_next(worker="w:1"))
    assert sizes_of(chunk) == {"x": 1, "y": 1}
    assert read < FEW
    read, nothing = rows_read(lambda: claim_next(worker="w:2"))
    assert (nothing, read < FEW) == (None, True), read
    for glance in (sweep, numbers):
        read, _ = rows_read(glance)
        assert read < FEW, glance
    resume(large)
    read, chunk = rows_read(lambda: claim_next(worker="w:3"))
    assert (len(chunk.rows), read > FEW) == (200, True), "the count sees what is read"


def test_a_resumed_mass_update_goes_on_where_it_was_each_row_once() -> None:
    batch = put_batch("large", {"a": 250, "b": 30, "": 20})
    first = claim_next(worker="w:1")
    assert first is not None and sizes_of(first) == {"a": 200}
    pause(batch)
    assert claim_all() == []
    settle(chunk=first, outcomes=[Outcome(row) for row in first.rows])
    assert claim_all() == []
    resume(batch)
    rest = [row.message_id for chunk in claim_all() for row in chunk.rows]
    assert len(rest) == len(set(rest)) == 100
    assert not OutboxMessage.objects.pending().exists()


def test_a_pause_between_the_choice_and_the_claim_holds_and_leaves_the_rows_in_their_pile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = put_batch("large", {"a": 30})
    put_contacts_of({"b": 5})
    plan_all()
    read_piles = piles.read_piles

    def paused_meanwhile(*args: Any, **more: Any) -> Any:
        def work() -> None:
            batches.pause(batch_id=batch.pk, by="ops", reason="wait")
            connection.close()

        other = threading.Thread(target=work)
        other.start()
        other.join()
        return read_piles(*args, **more)

    monkeypatch.setattr(piles, "read_piles", paused_meanwhile)
    assert [sizes_of(chunk) for chunk in claim_all()] == [{"b": 5}]
    assert list(Pile.objects.filter(batch=batch.pk).values_list("waiting", flat=True)) == [30]
    resume(batch)
    monkeypatch.undo()
    assert [sizes_of(chunk) for chunk in claim_all()] == [{"a": 30}]


def test_a_small_mass_update_is_planned_beside_a_large_one_and_not_behind_it() -> None:
    large = put_batch("large", {"": 3_000})
    small = put_batch("small", {"": 10})
    with transaction.atomic():
        assert piles.take_turn() and plan.plan_some(with_unplanned()) == 2_000 - 1_000 + 10 == 1_010
    assert dict(Pile.objects.values_list("batch", "waiting")) == {large.pk: 1_000, small.pk: 10}


def test_what_a_cancelled_mass_update_left_in_piles_is_pruned() -> None:
    batch = put_batch("large", {"a": 3, "b": 2})
    plan_all()
    cancel(batch_id=batch.pk, by="ops", reason="wrong file")
    assert (reap().piles_pruned, Pile.objects.count()) == (2, 0)


def test_a_row_that_a_cancelled_one_had_taken_over_is_planned_anew() -> None:
    """Its pile may long be counted as empty."""
    first = put_batch("first", {"a": 2})
    plan_all()
    absorbing = put_batch_over(first)
    pause(absorbing)
    assert claim_all() == []
    assert Pile.objects.get(batch=first.pk).waiting == 0
    cancel(batch_id=absorbing.pk, by="ops", reason="wrong file")
    assert [len(chunk.rows) for chunk in claim_all()] == [2]


def put_batch_over(batch: Any) -> Any:
    """Another mass update of the same records."""
    file = batches.File("over", "over", "", ["Rota_Id__c"], batch.rows_total)
    over, _ = batches.start(file=file, object="Contact", operation=batch.operation, by="ops")
    keys = batch.messages.order_by("line").values_list("line", "record__external_id")
    lines = [outbox.Line(line, key, {"title": "over"}) for line, key in keys]
    assert batches.queue_lines(batch=over, at=0, lines=lines) and batches.finish_queueing(batch_id=over.pk)
    return over


def test_a_row_passed_over_before_the_pause_stands_at_no_head_during_it() -> None:
    batch = put_batch("large", {"a": 3})
    run_sql("UPDATE crmsync_outboxmessage SET passed_at = now() - interval '1 minute'")
    pause(batch)
    assert not OutboxMessage.objects.filter(passed_at__isnull=False).exists()
    put("lead")
    assert [chunk.object for chunk in claim_all()] == ["Lead"]
