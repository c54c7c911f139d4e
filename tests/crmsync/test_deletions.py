"""A deletion and the changes before and after it: none comes back, none is lost, none overtakes the other."""

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from crmsync.errors import Fault
from crmsync.models import OutboxMessage
from crmsync.models.batches import Operation
from crmsync.moves.claim import Chunk, claim_next
from crmsync.moves.retry import retry_dead
from crmsync.moves.settle import Outcome, settle
from crmsync.outbox import enqueue
from tests.crmsync.rows import again, record_of, run_sql

ACCOUNT = {"relation": "Account", "object": "Account", "external_id": "a"}


def change(operation: str, *, parents: Any = (), **fields: Any) -> OutboxMessage:
    with transaction.atomic():
        pk = enqueue(
            object="Contact", external_id="one", fields=fields, parents=parents, operation=Operation(operation)
        )
    return OutboxMessage.objects.select_related("record").get(pk=pk)


def claim() -> Chunk:
    run_sql("UPDATE crmsync_lane SET not_before = now(), quarantined_until = NULL")
    run_sql("UPDATE crmsync_outboxmessage SET due_at = now() WHERE status = 'pending'")
    chunk = claim_next(worker="w")
    assert chunk is not None
    return chunk


def finish(chunk: Chunk, code: str = "") -> None:
    settle(chunk=chunk, outcomes=[Outcome(row, fault=Fault(code) if code else None) for row in chunk.rows])


def what(message: OutboxMessage) -> tuple[str, str | None, dict[str, Any]]:
    message = again(message)
    return message.operation, message.afterwards, message.fields


MERGED = [
    ("upsert", "upsert", ("upsert", None, {"x": 2, "a": 1, "b": 2})),
    ("update", "update", ("update", None, {"x": 2, "a": 1, "b": 2})),
    ("upsert", "update", ("upsert", None, {"x": 2, "a": 1, "b": 2})),
    ("update", "upsert", ("upsert", None, {"x": 2, "a": 1, "b": 2})),
    ("upsert", "delete", ("delete", None, {})),
    ("update", "delete", ("delete", None, {})),
    ("delete", "delete", ("delete", None, {})),
    ("delete", "upsert", ("delete", "upsert", {"x": 2, "b": 2})),
    ("delete", "update", ("delete", "update", {"x": 2, "b": 2})),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("older", "newer", "merged"), MERGED)
def test_what_waits_and_what_comes_become_one(older: str, newer: str, merged: Any) -> None:
    first, second = change(older, x=1, a=1), change(newer, x=2, b=2)
    assert what(second) == merged
    assert (again(first).status, again(first).superseded_by_id) == ("superseded", second.pk)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("older", "newer", "merged"), MERGED)
def test_what_comes_back_and_what_came_meanwhile_become_the_same_one(older: str, newer: str, merged: Any) -> None:
    first = change(older, x=1, a=1)
    chunk = claim()
    second = change(newer, x=2, b=2)
    finish(chunk, "UNABLE_TO_LOCK_ROW")
    assert what(second) == merged
    assert (again(first).status, again(first).superseded_by_id) == ("superseded", second.pk)


@pytest.mark.django_db(transaction=True)
def test_a_write_after_a_waiting_deletion_is_sent_after_it_and_creates_the_record_anew() -> None:
    change("upsert", Title="old", Phone="1")
    finish(claim())
    change("delete")
    message = change("upsert", parents=[ACCOUNT], Title="new")
    chunk = claim()
    assert (chunk.operation, chunk.rows[0].creating) == ("delete", False)
    finish(chunk)
    assert (again(message).status, what(message)) == ("pending", ("upsert", None, {"Title": "new"}))
    assert (record_of(message).crm_id, record_of(message).delivered_version) == (None, None)
    chunk = claim()
    assert (chunk.operation, chunk.rows[0].creating, chunk.rows[0].fields) == ("upsert", True, {"Title": "new"})
    finish(chunk)
    assert again(message).status == "delivered"
    assert record_of(message).parents == [ACCOUNT]


@pytest.mark.django_db(transaction=True)
def test_what_comes_while_the_record_is_being_deleted_takes_over_the_write_after_it() -> None:
    change("delete")
    first = change("upsert", Title="first", Phone="1")
    chunk = claim()
    second = change("upsert", Title="second")
    finish(chunk)
    assert again(first).status == "superseded"
    assert (what(second), again(second).status) == (("upsert", None, {"Title": "second", "Phone": "1"}), "pending")


@pytest.mark.django_db(transaction=True)
def test_a_deletion_locks_the_parents_it_was_told_of_unless_rota_knows_better() -> None:
    message = change("delete", parents=[ACCOUNT])
    assert claim().rows[0].parent_keys == ("Account:a",)
    assert (message.parents, record_of(message).parents) == ([], [ACCOUNT])
    change("delete", parents=[{**ACCOUNT, "external_id": "b"}])
    assert record_of(message).parents == [ACCOUNT]


@pytest.mark.django_db(transaction=True)
def test_a_delivered_deletion_leaves_nothing_known_of_the_record() -> None:
    change("upsert", parents=[ACCOUNT], Title="x")
    finish(claim())
    message = change("delete")
    finish(claim())
    record = record_of(message)
    assert (again(message).status, record.delivered_version, record.crm_id, record.parents) == (
        "delivered", None, None, [],
    )  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_a_dead_deletion_is_sent_again_only_while_nothing_newer_was_written() -> None:
    dead = change("delete")
    finish(claim(), "INSUFFICIENT_ACCESS_OR_READONLY")
    assert retry_dead(message_ids=[dead.pk], by="ops", reason="r").retried == 1
    sent_again = OutboxMessage.objects.get(status="pending")
    assert what(sent_again) == ("delete", None, {})
    finish(claim(), "FIELD_CUSTOM_VALIDATION_EXCEPTION")
    change("upsert", Title="written since")
    assert retry_dead(message_ids=[sent_again.pk], by="ops", reason="r").skipped_newer == 1


@pytest.mark.django_db(transaction=True)
def test_a_dead_write_is_not_sent_again_once_its_record_was_deleted() -> None:
    dead = change("upsert", Title="x")
    finish(claim(), "FIELD_CUSTOM_VALIDATION_EXCEPTION")
    change("delete")
    change("upsert", Phone="1")
    assert retry_dead(message_ids=[dead.pk], by="ops", reason="r").skipped_newer == 1
    assert again(dead).status == "superseded"


@pytest.mark.django_db(transaction=True)
def test_a_dead_deletion_with_a_write_after_it_is_sent_again_as_both() -> None:
    change("delete")
    dead = change("upsert", Title="x")
    finish(claim(), "FIELD_CUSTOM_VALIDATION_EXCEPTION")
    assert again(dead).status == "dead"
    assert retry_dead(message_ids=[dead.pk], by="ops", reason="r").retried == 1
    assert what(OutboxMessage.objects.get(status="pending")) == ("delete", "upsert", {"Title": "x"})


FIELDS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 9), min_size=1, max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), FIELDS),
        st.tuples(st.sampled_from(["delete", "claim", "deliver", "lock", "refuse", "retry"]), st.just({})),
    ),
    max_size=16,
)


@pytest.mark.django_db(transaction=True)
@given(steps=STEPS)
@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_the_org_ends_as_if_every_change_had_been_made_in_order(steps: list[Any]) -> None:
    """Refused deletions are left out: a person judges those, and newer writes stand."""
    tables = ("crmrecord", "outboxmessage", "lane", "claim", "attempt", "orgstate")
    run_sql(f"TRUNCATE {', '.join(f'crmsync_{table}' for table in tables)} CASCADE")
    wanted: dict[str, Any] | None = None
    in_org: dict[str, Any] | None = None
    held: list[Chunk] = []

    def settle_with(code: str) -> None:
        nonlocal in_org
        if not held:
            return
        chunk = held.pop()
        deletes = chunk.operation == "delete"
        if not code:
            in_org = None if deletes else {**(in_org or {}), **chunk.rows[0].fields}
        finish(chunk, "UNABLE_TO_LOCK_ROW" if code and deletes else code)

    def retry() -> None:
        retry_dead(message_ids=list(OutboxMessage.objects.dead().values_list("pk", flat=True)), by="x", reason="y")

    for step, fields in steps:
        match step:
            case "upsert":
                change("upsert", **fields)
                wanted = {**(wanted or {}), **fields}
            case "delete":
                change("delete")
                wanted = None
            case "claim":
                if not held and OutboxMessage.objects.pending().exists():
                    held.append(claim())
            case "deliver":
                settle_with("")
            case "lock":
                settle_with("UNABLE_TO_LOCK_ROW")
            case "refuse":
                settle_with("FIELD_CUSTOM_VALIDATION_EXCEPTION")
            case "retry":
                retry()
    settle_with("")
    retry()
    while OutboxMessage.objects.open().exists():
        held.append(claim())
        settle_with("")
    assert in_org == wanted
    assert not OutboxMessage.objects.dead().exists()
