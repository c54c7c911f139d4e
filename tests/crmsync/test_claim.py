"""Who gets which chunk, and how much of the table a worker reads for it."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from crmsync.errors import Fault
from crmsync.models import Claim, Lane, OutboxMessage
from crmsync.moves.claim import HEAD, claim_next, read_head, take
from crmsync.moves.reading import candidates_of, read
from crmsync.moves.settle import Outcome, settle
from tests.crmsync.locks import row_locked
from tests.crmsync.rows import again, put, put_contacts, run_sql, statuses

pytestmark = pytest.mark.django_db(transaction=True)


def test_one_parent_is_written_by_one_worker_at_a_time() -> None:
    put_contacts("a", 3)
    first = claim_next(worker="one")
    assert first is not None and len(first.rows) == 3
    put("a-late", object="Contact", account="a", last_name="Late")
    assert claim_next(worker="two") is None
    put_contacts("b", 1)
    second = claim_next(worker="two")
    assert second is not None and [row.external_id for row in second.rows] == ["b-0"]


def test_a_lane_is_known_by_every_name_of_its_parent() -> None:
    put("acme", object="Account", name="Acme")
    run_sql("UPDATE crmsync_outboxmessage SET status = 'delivered', settled_at = now()")
    run_sql("UPDATE crmsync_crmrecord SET crm_id = '0015R0000000001QAA', delivered_version = 1")
    put_contacts("acme", 1)
    assert claim_next(worker="one") is not None
    by_id = put("other", object="Contact", last_name="L")
    parent = {"relation": "Account", "object": "Account", "crm_id": "0015R0000000001"}
    OutboxMessage.objects.filter(pk=by_id.pk).update(parents=[parent])
    assert claim_next(worker="two") is None


def test_what_waits_for_a_closed_lane_is_put_off_and_clogs_no_head() -> None:
    blocked = put_contacts("hot", HEAD + 5)
    run_sql("INSERT INTO crmsync_lane (key, not_before) VALUES ('Account:hot', now() + interval '1 minute')")
    put("free")
    chunk = claim_next(worker="one")
    assert chunk is not None and [row.external_id for row in chunk.rows] == ["free"]
    assert again(blocked[0]).due_at == Lane.objects.get(key="Account:hot").not_before


def test_two_records_that_name_each_other_do_not_wait_for_ever() -> None:
    def account(name: str, parent: str) -> OutboxMessage:
        message = put(name, object="Account", name=name)
        wanted = [{"relation": "Parent", "object": "Account", "external_id": parent}]
        OutboxMessage.objects.filter(pk=message.pk).update(parents=wanted)
        return message

    older, newer = account("a", "b"), account("b", "a")
    selfish = account("c", "c")
    chunk = claim_next(worker="one")
    assert chunk is not None
    assert {row.message_id for row in chunk.rows} == {older.pk, selfish.pk}
    assert statuses([newer]) == ["pending"]


def test_a_message_that_another_transaction_holds_is_left_to_it() -> None:
    message = put("one")
    with row_locked("crmsync_outboxmessage", f"id = {message.pk}"):
        assert claim_next(worker="one") is None
    assert claim_next(worker="one") is not None


def test_a_claim_ends_with_its_lease_by_the_databases_clock(settings: object) -> None:
    put()
    claim_next(worker="one")
    (seconds,) = run_sql("SELECT extract(epoch FROM lease_until - claimed_at)::int FROM crmsync_claim")[0]
    assert seconds == settings.CRM_LEASE_S  # type: ignore[attr-defined]
    assert Claim.objects.get().begun_at is None


def test_a_worker_reads_the_head_of_the_queue_and_not_the_table() -> None:
    """20,000 messages of which half are settled: the plan stops after one head, by the partial index."""
    run_sql(
        "INSERT INTO crmsync_crmrecord (object, external_id, version)"
        " SELECT 'Lead', n::text, 1 FROM generate_series(1, 20000) AS n"
    )
    run_sql(
        "INSERT INTO crmsync_outboxmessage (record_id, version, fields, status, settled_at)"
        " SELECT id, 1, '{}', CASE WHEN id %% 2 = 0 THEN 'pending' ELSE 'delivered' END,"
        " CASE WHEN id %% 2 = 0 THEN NULL ELSE now() END FROM crmsync_crmrecord"
    )
    run_sql("ANALYZE crmsync_outboxmessage, crmsync_crmrecord")
    with CaptureQueriesContext(connection) as queries:
        assert len(read_head(priority=0, since=None, seen=())) == HEAD
    ((plan,),) = run_sql("EXPLAIN (ANALYZE, FORMAT JSON) " + queries[0]["sql"].replace("%", "%%"))
    text = json.dumps(plan)
    assert "outbox_due" in text
    assert most_rows(plan[0]["Plan"]) <= 2 * HEAD


def most_rows(plan: dict[str, object]) -> float:
    inner = [most_rows(child) for child in plan.get("Plans", [])]  # type: ignore[attr-defined]
    return max([float(plan["Actual Rows"]), *inner])  # type: ignore[arg-type]


def test_what_was_put_back_into_a_message_after_it_was_chosen_is_not_sent_without(settings: Any) -> None:
    """Found by killing a worker under two mass updates: a chunk carried the fields as they were when it was chosen."""
    settings.CRM_BACKOFF_FIRST_MS = settings.CRM_BACKOFF_CAP_MS = 10
    put("one", phone="1")
    first = claim_next(worker="a")
    assert first is not None
    newer = put("one", email="new@x.example")
    chosen = candidates_of(read(OutboxMessage.objects.filter(pk=newer.pk)))
    settle(chunk=first, outcomes=[Outcome(first.rows[0], fault=Fault("UNABLE_TO_LOCK_ROW"))])
    run_sql("UPDATE crmsync_lane SET not_before = now()")
    run_sql("UPDATE crmsync_outboxmessage SET due_at = now() WHERE status = 'pending'")
    assert take(worker="b", wanted=chosen) is None
    again_chosen = claim_next(worker="b")
    assert again_chosen is not None
    assert again_chosen.rows[0].fields == {"phone": "1", "email": "new@x.example"}


def test_a_row_whose_lanes_changed_with_a_grandparent_after_it_was_chosen_is_looked_at_again(
    settings: Any,
) -> None:
    settings.CRM_RELATIONS = {"Contact.Account": "roll-up", "Account.Group__r": "lookup"}
    put("a", object="Account", name="A")
    run_sql("UPDATE crmsync_outboxmessage SET status = 'delivered', settled_at = now()")
    run_sql("UPDATE crmsync_crmrecord SET crm_id = '0015R0000000001QAA', delivered_version = 1")
    put("c", object="Contact", account="a", last_name="C")
    chosen = candidates_of(read(OutboxMessage.objects.due()))
    group = '[{"relation": "Group__r", "object": "Group__c", "external_id": "g"}]'
    run_sql("UPDATE crmsync_crmrecord SET parents = %s WHERE object = 'Account'", [group])
    assert take(worker="b", wanted=chosen) is None
    again_chosen = claim_next(worker="b")
    assert again_chosen is not None
    assert again_chosen.rows[0].keys == {"Contact:c", "Account:a", "Group__c:g"}
