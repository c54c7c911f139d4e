"""Versions are drawn in order, older waiting versions are absorbed, and no field is lost or comes back."""

import json
import threading
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from crmsync.errors import Fault, NotSendable
from crmsync.models import CrmRecord, OutboxMessage
from crmsync.moves.claim import Chunk, claim_next
from crmsync.moves.retry import retry_dead
from crmsync.moves.settle import Outcome, settle
from crmsync.outbox import enqueue
from tests.crmsync.rows import again, put, run_sql, statuses

A = {"relation": "Account", "object": "Account", "external_id": "a"}
B = {"relation": "Account", "object": "Account", "external_id": "b"}
MANAGER = {"relation": "ReportsTo", "object": "Contact", "external_id": "m"}


@pytest.mark.django_db
def test_a_newer_version_absorbs_the_one_that_waits() -> None:
    old = put("one", email="old@x.example", phone="1")
    new = put("one", email="new@x.example", company=None)
    assert (new.version, new.fields) == (2, {"email": "new@x.example", "phone": "1", "company": None})
    assert (again(old).status, again(old).superseded_by_id) == ("superseded", new.pk)


@pytest.mark.django_db
def test_parents_are_absorbed_by_relation() -> None:
    def send(*parents: dict[str, str]) -> list[dict[str, str]]:
        with transaction.atomic():
            message_id = enqueue(object="Contact", external_id="one", fields={}, parents=parents)
        found: list[dict[str, str]] = OutboxMessage.objects.get(pk=message_id).parents
        return sorted(found, key=lambda parent: parent["relation"])

    assert send(A, MANAGER) == [A, MANAGER]
    assert send() == [A, MANAGER]
    assert send(B) == [B, MANAGER]


@pytest.mark.django_db
def test_what_was_absorbed_keeps_its_backoff_and_its_attempts_but_a_fresh_one_is_due_at_once() -> None:
    old = put("one", email="a@x.example")
    OutboxMessage.objects.filter(pk=old.pk).update(attempts=3, due_at="2999-01-01T00:00Z")
    new = put("one", phone="1")
    assert (new.attempts, new.due_at.year) == (3, 2999)


@pytest.mark.django_db
def test_the_more_urgent_of_two_versions_decides() -> None:
    put("one", priority=0)
    assert put("one", priority=1).priority == 0


@pytest.mark.django_db
def test_one_call_takes_many_records_and_the_same_one_twice() -> None:
    rows = run_sql(
        "SELECT external_id, version FROM outbox_enqueue('Lead', ARRAY['b', 'a', 'b'], ARRAY[%s, %s, %s]::jsonb[])",
        ['{"x": 1, "y": 1}', "{}", '{"x": 2}'],
    )
    assert sorted(rows) == [("a", 1), ("b", 1), ("b", 2)]
    newest = OutboxMessage.objects.pending().get(record__external_id="b")
    assert newest.fields == {"x": 2, "y": 1}


@pytest.mark.django_db
def test_an_empty_call_does_nothing_and_an_uneven_one_is_refused() -> None:
    assert run_sql("SELECT * FROM outbox_enqueue('Lead', '{}', '{}')") == []
    with pytest.raises(Exception, match="1 keys, 2 fields"), transaction.atomic():
        run_sql("SELECT * FROM outbox_enqueue('Lead', ARRAY['a'], ARRAY['{}', '{}']::jsonb[])")
    with pytest.raises(Exception, match="keys"), transaction.atomic():
        run_sql("SELECT * FROM outbox_enqueue('Lead', NULL, ARRAY['{}']::jsonb[])")


@pytest.mark.django_db
@pytest.mark.parametrize("value", [float("nan"), float("inf"), "a\x00b", {1, 2}])
def test_what_no_crm_could_take_is_refused_at_the_door(value: Any) -> None:
    with pytest.raises(NotSendable):
        put("one", email=value)
    assert not CrmRecord.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "value", ["\\u0000", "\\\\u0000", '"', "\u2028", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")]
)
def test_strange_texts_arrive_as_they_are(value: str) -> None:
    assert put("one", email=value).fields == {"email": value}


@pytest.mark.django_db(transaction=True)
def test_enqueueing_outside_a_transaction_is_a_mistake() -> None:
    with pytest.raises(RuntimeError):
        enqueue(object="Lead", external_id="one", fields={})


@pytest.mark.django_db(transaction=True)
def test_a_claimed_version_is_left_alone_and_if_it_fails_the_newer_one_takes_over_its_fields(settings: Any) -> None:
    old = put("one", email="old@x.example", phone="1")
    chunk = claim_next(worker="w")
    assert chunk is not None
    new = put("one", email="new@x.example")
    assert (statuses([old, new]), new.fields) == (["claimed", "pending"], {"email": "new@x.example"})
    settle(chunk=chunk, outcomes=[Outcome(chunk.rows[0], fault=Fault("UNABLE_TO_LOCK_ROW"))])
    assert statuses([old, new]) == ["superseded", "pending"]
    assert again(new).fields == {"email": "new@x.example", "phone": "1"}
    assert again(new).attempts == 1


@pytest.mark.django_db(transaction=True)
def test_two_writers_of_one_record_draw_two_versions_and_the_later_commit_wins() -> None:
    drawn, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        try:
            with transaction.atomic():
                enqueue(object="Lead", external_id="one", fields={"email": "slow", "phone": "1"})
                drawn.set()
                assert go_on.wait(10)
        finally:
            connection.close()

    thread = threading.Thread(target=slow)
    thread.start()
    assert drawn.wait(10)
    threading.Timer(0.2, go_on.set).start()
    message = put("one", email="fast")
    thread.join()
    assert (message.version, message.fields) == (2, {"email": "fast", "phone": "1"})


NAMES = st.sampled_from(["email", "phone", "company", "owner", "status"])
VALUES = st.one_of(
    st.none(), st.integers(0, 99), st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=3)
)
FIELDS = st.dictionaries(NAMES, VALUES, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), FIELDS),
        st.tuples(st.sampled_from(["claim", "deliver", "lock", "refuse", "retry"]), st.just({})),
    ),
    max_size=14,
)


@pytest.mark.django_db(transaction=True)
@given(steps=STEPS)
@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_the_crm_ends_with_the_newest_value_of_every_field(steps: list[tuple[str, Any]]) -> None:
    """A model of the org beside the outbox: in the end, after every dead message is retried, both hold the same."""
    from crmsync.errors import Fault

    run_sql("TRUNCATE crmsync_crmrecord, crmsync_outboxmessage, crmsync_lane, crmsync_claim, crmsync_attempt CASCADE")
    wanted: dict[str, Any] = {}
    in_org: dict[str, Any] = {}
    held: list[Chunk] = []

    def claim() -> None:
        run_sql("UPDATE crmsync_lane SET not_before = now()")
        run_sql("UPDATE crmsync_outboxmessage SET due_at = now() WHERE status = 'pending'")
        if not held and (chunk := claim_next(worker="w")):
            held.append(chunk)

    def settle_with(code: str) -> None:
        if held:
            chunk = held.pop()
            if not code:
                in_org.update(chunk.rows[0].fields)
            settle(chunk=chunk, outcomes=[Outcome(chunk.rows[0], fault=Fault(code) if code else None)])

    def retry() -> None:
        retry_dead(message_ids=list(OutboxMessage.objects.dead().values_list("pk", flat=True)), by="x", reason="y")

    for step, fields in steps:
        match step:
            case "put":
                if fields:
                    put("one", **fields)
                    wanted |= json.loads(json.dumps(fields))
            case "claim":
                claim()
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
        claim()
        settle_with("")
    assert in_org == wanted
    assert not OutboxMessage.objects.dead().exists()
