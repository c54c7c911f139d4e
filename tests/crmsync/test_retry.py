"""A person sends dead messages again."""

import pytest

from crmsync.errors import Fault
from crmsync.models import Lane, OutboxMessage
from crmsync.moves.claim import claim_next
from crmsync.moves.retry import Retried, retry_dead
from crmsync.moves.settle import Outcome, settle
from tests.crmsync.rows import again, put, run_sql

pytestmark = pytest.mark.django_db(transaction=True)


def die(message: OutboxMessage, code: str = "FIELD_CUSTOM_VALIDATION_EXCEPTION") -> OutboxMessage:
    chunk = claim_next(worker="w")
    assert chunk is not None and [row.message_id for row in chunk.rows] == [message.pk]
    settle(chunk=chunk, outcomes=[Outcome(chunk.rows[0], fault=Fault(code))])
    assert again(message).status == "dead"
    return message


def retry(*messages: OutboxMessage) -> Retried:
    return retry_dead(message_ids=[message.pk for message in messages], by="ada", reason="fixed the rule")


def test_what_no_newer_version_set_is_sent_again_under_the_persons_name() -> None:
    old = die(put("one", email="old@x.example", phone="1"))
    die(put("one", email="new@x.example"))
    assert retry(old) == Retried(retried=1)
    newest = OutboxMessage.objects.pending().get()
    assert (newest.fields, newest.requested_by, newest.reason) == ({"phone": "1"}, "ada", "fixed the rule")
    assert (again(old).status, again(old).superseded_by_id) == ("retried", newest.pk)


def test_a_message_that_newer_versions_replaced_whole_is_skipped_and_leaves_the_list() -> None:
    old = die(put("one", email="old@x.example"))
    put("one", email="new@x.example")
    assert retry(old) == Retried(skipped_newer=1)
    assert again(old).status == "superseded"
    assert OutboxMessage.objects.pending().get().fields == {"email": "new@x.example"}


def test_two_dead_versions_retried_together_end_as_the_newer_wrote_them() -> None:
    old = die(put("one", email="old@x.example", phone="1"))
    new = die(put("one", email="new@x.example", company="Acme"))
    assert retry(new, old).retried == 2
    assert OutboxMessage.objects.pending().get().fields == {"email": "new@x.example", "company": "Acme", "phone": "1"}


def test_retrying_twice_sends_once() -> None:
    dead = die(put("one"))
    assert retry(dead).retried == 1
    assert retry(dead) == Retried(skipped_not_dead=1)
    assert retry_dead(message_ids=[10**9], by="ada", reason="").skipped_not_dead == 1
    assert OutboxMessage.objects.pending().count() == 1


def test_a_retry_lifts_the_backoff_of_its_lanes_but_no_quarantine() -> None:
    dead = die(put("one"))
    run_sql("UPDATE crmsync_lane SET not_before = 'infinity'")
    retry(dead)
    assert Lane.objects.free().count() == 1
    run_sql("UPDATE crmsync_lane SET quarantined_until = '2999-01-01'")
    assert not Lane.objects.free().exists()


def test_a_retried_message_starts_with_all_its_attempts() -> None:
    dead = die(put("one"))
    retry(dead)
    assert OutboxMessage.objects.pending().get().attempts == 0
