"""A mass update is paused and cancelled; changes of others that its rows took over are not."""

from typing import Any

import pytest

from crmsync import outbox
from crmsync.flows.push import cancel
from crmsync.models import Batch, Operation, OutboxMessage
from crmsync.moves import batches
from crmsync.moves.claim import claim_next
from crmsync.moves.progress import progress, verdicts
from crmsync.moves.settle import Outcome, settle
from tests.crmsync.rows import again, put

pytestmark = pytest.mark.django_db(transaction=True)


def batch_of(*keys: str, name: str = "a.csv", operation: str = "upsert", **fields: Any) -> Batch:
    """A mass update that sets these fields of these contacts, queued."""
    file = batches.File(name, name, "", ["Rota_Id__c"], len(keys))
    batch, _ = batches.start(file=file, object="Contact", operation=Operation(operation), by="ops")
    given = {} if operation == "delete" else fields or {"title": name}
    lines = [outbox.Line(number, key, given) for number, key in enumerate(keys, start=2)]
    assert batches.queue_lines(batch=batch, at=0, lines=lines)
    assert batches.finish_queueing(batch_id=batch.pk)
    batch.refresh_from_db()
    return batch


def lines_of(batch: Batch) -> dict[str, str]:
    batch.refresh_from_db()
    return {verdict.key: verdict.verdict for verdict in verdicts(batch)}


def pending(key: str) -> OutboxMessage:
    return OutboxMessage.objects.select_related("record").get(status="pending", record__external_id=key)


def test_a_cancelled_mass_update_sends_nothing_more_and_says_what_had_gone() -> None:
    batch = batch_of("one", "two")
    chunk = claim_next(worker="w")
    assert chunk is not None
    late = batch_of("three", name="b.csv")
    assert cancel(batch_id=batch.pk, by="ops", reason="wrong file") == 0
    settle(chunk=chunk, outcomes=[Outcome(row) for row in chunk.rows])
    assert cancel(batch_id=late.pk, by="ops", reason="wrong file") == 1
    assert claim_next(worker="w") is None
    assert lines_of(batch) == {"one": "delivered", "two": "delivered"}
    assert lines_of(late) == {"three": "cancelled"}
    assert progress(late).as_counts()["cancelled"] == 1


def test_a_change_that_a_cancelled_row_had_taken_over_waits_again() -> None:
    ours = put("one", object="Contact", title="by the rep", phone="1")
    batch = batch_of("one", title="by the file")
    assert pending("one").fields == {"title": "by the file", "phone": "1"}
    assert cancel(batch_id=batch.pk, by="ops", reason="r") == 1
    back = pending("one")
    assert (back.pk, back.fields, back.priority) == (ours.pk, {"title": "by the rep", "phone": "1"}, 0)
    assert back.version == back.record.version == 3
    chunk = claim_next(worker="w")
    assert chunk is not None and chunk.rows[0].message_id == ours.pk


def test_what_failed_and_came_back_into_a_cancelled_row_comes_back_together_with_what_waited() -> None:
    put("one", object="Contact", title="claimed", phone="1")
    chunk = claim_next(worker="w")
    assert chunk is not None
    put("one", object="Contact", title="waited")
    batch = batch_of("one", title="by the file")
    from crmsync.errors import Fault

    settle(chunk=chunk, outcomes=[Outcome(row, fault=Fault("UNABLE_TO_LOCK_ROW")) for row in chunk.rows])
    assert pending("one").fields == {"title": "by the file", "phone": "1"}
    cancel(batch_id=batch.pk, by="ops", reason="r")
    assert pending("one").fields == {"title": "waited", "phone": "1"}


def test_of_two_mass_updates_over_one_record_the_cancelled_newer_gives_way_to_the_older() -> None:
    older, newer = batch_of("one", "two"), batch_of("one", name="b.csv")
    assert lines_of(older) == {"one": "waiting", "two": "waiting"}
    cancel(batch_id=newer.pk, by="ops", reason="r")
    assert pending("one").fields == {"title": "a.csv"}
    assert lines_of(older) == {"one": "waiting", "two": "waiting"}
    assert lines_of(newer) == {"one": "cancelled"}


def test_a_row_of_a_mass_update_that_was_cancelled_first_does_not_come_back() -> None:
    ours = put("one", object="Contact", phone="1")
    older, newer = batch_of("one"), batch_of("one", name="b.csv")
    assert cancel(batch_id=older.pk, by="ops", reason="r") == 0
    cancel(batch_id=newer.pk, by="ops", reason="r")
    assert lines_of(older) == {"one": "cancelled"}
    assert (pending("one").pk, pending("one").fields) == (ours.pk, {"phone": "1"})


def test_a_cancelled_deletion_gives_back_the_write_it_made_vanish() -> None:
    put("one", object="Contact", phone="1")
    batch = batch_of("one", operation="delete")
    assert pending("one").operation == "delete"
    cancel(batch_id=batch.pk, by="ops", reason="r")
    assert (pending("one").operation, pending("one").fields) == ("upsert", {"phone": "1"})


def test_a_newer_change_that_took_a_row_over_is_not_cancelled_with_it() -> None:
    batch = batch_of("one", title="by the file")
    ours = put("one", object="Contact", phone="1")
    assert cancel(batch_id=batch.pk, by="ops", reason="r") == 0
    assert again(ours).fields == {"title": "by the file", "phone": "1"}
    assert lines_of(batch) == {"one": "waiting"}


def test_a_paused_mass_update_waits_and_an_urgent_change_in_it_does_not() -> None:
    put("two", object="Contact", phone="1")
    batch = batch_of("one", "two")
    assert batches.pause(batch_id=batch.pk, by="ops", reason="busy hour")
    assert not batches.pause(batch_id=batch.pk, by="ops", reason="again")
    chunk = claim_next(worker="w")
    assert chunk is not None and [row.external_id for row in chunk.rows] == ["two"]
    assert claim_next(worker="w") is None
    assert batches.resume(batch_id=batch.pk, by="ops", reason="")
    chunk = claim_next(worker="w")
    assert chunk is not None and [row.external_id for row in chunk.rows] == ["one"]


def test_rows_of_a_file_are_counted_and_queued_in_one_transaction_so_none_is_queued_twice() -> None:
    batch = batch_of("one")
    Batch.objects.filter(pk=batch.pk).update(status="loading", rows_total=2, queued_at=None)
    lines = [outbox.Line(3, "two", {"title": "x"})]
    assert not batches.queue_lines(batch=batch, at=0, lines=lines)
    assert batches.queue_lines(batch=batch, at=1, lines=lines)
    assert not batches.queue_lines(batch=batch, at=1, lines=lines)
    assert batch.messages.count() == 2
    assert batches.finish_queueing(batch_id=batch.pk)


def test_a_mass_update_has_ended_when_none_of_its_rows_waits() -> None:
    batch = batch_of("one")
    assert batches.note_settled() == 0
    cancel(batch_id=batch.pk, by="ops", reason="r")
    assert batches.note_settled() == 1
    batch.refresh_from_db()
    assert batch.settled_at is not None
