"""From mail to mail: the settlement of one and the intent of the next, in one call and one commit."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.transaction import TransactionManagementError, atomic
from django.test.utils import CaptureQueriesContext

from outreach.mail.outcome import Outcome
from outreach.models import Enrolment, Message, SendAttempt, Suppression
from outreach.moves.gate import Begun, Refused
from outreach.moves.onward import Handed, settle_and_begin
from outreach.moves.settling import settle
from outreach.moves.suppression import suppress
from tests.outreach.make import ACCEPTED, at_gate, expire, hold, intent_of, make_running
from tests.outreach.test_settling import assert_events_play_back

pytestmark = pytest.mark.django_db(transaction=True)


def handed_over(held: Any) -> Handed:
    gate = at_gate(held)
    assert isinstance(gate, Begun)
    return Handed(held.token, gate.attempt, ACCEPTED)


def go_on(held: Any, handed: Handed) -> Begun | Refused:
    return settle_and_begin(handed=handed, intent=intent_of(held.messages[1]), worker="w1")


def statuses() -> list[str]:
    return list(Message.objects.order_by("pk").values_list("status", flat=True))


def test_a_mail_is_settled_and_the_next_begun_by_one_call() -> None:
    held = hold(make_running(leads=2))
    handed = handed_over(held)
    with CaptureQueriesContext(connection) as queries:
        gate = go_on(held, handed)
    assert isinstance(gate, Begun) and len(queries) == 1
    assert statuses() == ["sent", "begun"]
    assert list(SendAttempt.objects.order_by("pk").values_list("status", flat=True)) == ["accepted", "begun"]
    assert Enrolment.objects.filter(end_reason="completed").count() == 1
    assert settle(attempt_id=gate.attempt, outcome=ACCEPTED, worker="w1", token=held.token)
    assert_events_play_back()


def test_a_mail_is_settled_though_the_gate_turns_the_next_away() -> None:
    held = hold(make_running(leads=2))
    handed = handed_over(held)
    with atomic():
        suppress(
            recipient_id=Message.objects.get(pk=held.messages[1]).recipient_id,
            reason=Suppression.Reason.UNSUBSCRIBED,
            worker="test",
        )
    assert isinstance(go_on(held, handed), Refused)
    assert statuses() == ["sent", "suppressed"]
    assert_events_play_back()


def test_a_mail_is_settled_as_late_evidence_where_the_lease_ran_out_and_the_next_does_not_leave() -> None:
    from outreach.flows.reaping import reap_all

    held = hold(make_running(leads=2))
    handed = handed_over(held)
    expire()
    reap_all()
    assert statuses() == ["in_doubt", "due"]
    gate = go_on(held, handed)
    assert isinstance(gate, Refused) and gate.stop
    assert statuses() == ["sent", "due"]
    assert_events_play_back()


def test_nothing_is_settled_under_a_token_that_is_not_the_trys_own() -> None:
    campaign = make_running(leads=4)
    held, other = hold(campaign, size=2), hold(campaign, worker="w2", size=2)
    handed = replace(handed_over(held), token=other.token)
    gate = settle_and_begin(handed=handed, intent=intent_of(other.messages[0]), worker="w2")
    assert isinstance(gate, Begun)
    assert SendAttempt.objects.get(pk=handed.attempt).status == "begun"


def test_both_are_durable_before_the_answer_or_nothing_is_done() -> None:
    held = hold(make_running(leads=2))
    handed = handed_over(held)
    with atomic(), pytest.raises(TransactionManagementError):
        go_on(held, handed)
    assert statuses() == ["begun", "claimed"]


@pytest.mark.parametrize(
    ("outcome", "may_wait"),
    [
        (ACCEPTED, True),
        (Outcome("in_doubt", "dot", None, "gone"), False),
        (Outcome("deferred", "rcpt", 450, "later"), False),
        (Outcome("refused", "rcpt", 550, "no such user", fault="mailbox"), False),
    ],
)
def test_only_what_was_accepted_may_wait_for_the_next_gate(outcome: Outcome, may_wait: bool) -> None:
    assert Handed(uuid4(), 1, outcome).may_wait == may_wait


def test_what_fills_fields_in_the_crm_does_not_wait(settings: Any) -> None:
    settings.CRM_MAIL_FIELDS = {"last_campaign": "Last_Campaign__c"}
    assert not Handed(uuid4(), 1, ACCEPTED).may_wait
