"""Unsubscribed, paused, or mailed by another campaign a moment ago: what is committed before the gate means no mail.

The negative control looks at the same facts when it claims, as senders without a gate do, and mails all the same.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from outreach.flows.launching import launch
from outreach.models import Message, SendAttempt, Suppression
from outreach.moves.campaigns import pause
from outreach.moves.claims import Held
from outreach.moves.gate import Begun, Refused
from outreach.moves.suppression import suppress
from tests.outreach.api.asking import Asking
from tests.outreach.make import at_gate, hold, make_campaign, make_message
from tests.races.test_outreach_claims import at_once

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 12
Stop = Callable[[], None]


def unsubscribe(message: Message) -> Stop:
    def stop() -> None:
        with transaction.atomic():
            why = Suppression.Reason.UNSUBSCRIBED
            suppress(recipient_id=message.recipient_id, reason=why, worker="link")

    return stop


def pausing(message: Message) -> Stop:
    return lambda: assert_true(pause(campaign_id=message.campaign_id))


def another_mail(message: Message) -> Stop:
    """Another campaign mails the same address, which begins its quiet period."""
    other = make_campaign()
    launch(campaign_id=other.pk, leads=[message.enrolment.lead_id], by="another")
    held = hold(other, worker="w2")
    return lambda: assert_true(isinstance(at_gate(held), Begun))


def assert_true(done: bool) -> None:
    assert done


STOPS: dict[str, tuple[Callable[[Message], Stop], set[str]]] = {
    "unsubscribe": (unsubscribe, {"the address wants no mail", "the claim is lost"}),  # the message may be gone already
    "pause": (pausing, {"campaign is not running"}),
    "quiet period": (another_mail, {"quiet period"}),
}


def may_leave(message: Message) -> bool:
    """The gate's facts, read without its lock."""
    fresh = Message.objects.select_related("campaign").get(pk=message.pk)
    others = SendAttempt.objects.filter(recipient_id=fresh.recipient_id).exclude(step_id=fresh.step_id)
    suppressed = Suppression.objects.filter(recipient_id=fresh.recipient_id, lifted_at=None)
    return fresh.campaign.status == "running" and not suppressed.exists() and not others.exists()


@pytest.mark.parametrize("name", STOPS)
def test_negative_control_who_looks_before_and_not_at_the_gate_mails_after_the_stop(name: str) -> None:
    message = make_message()
    stop = STOPS[name][0](message)
    looked, stopped, mailed = threading.Event(), threading.Event(), []

    def naive() -> None:
        may = may_leave(message)
        looked.set()
        stopped.wait()
        if may:
            mailed.append(message.pk)
        connection.close()

    thread = threading.Thread(target=naive)
    thread.start()
    looked.wait()
    stop()
    stopped.set()
    thread.join()
    assert mailed == [message.pk] and not may_leave(message)


@pytest.mark.parametrize("name", STOPS)
def test_what_is_committed_between_claim_and_gate_means_no_mail(name: str) -> None:
    message = make_message()
    stop, held = STOPS[name][0](message), hold(message.campaign)
    stop()
    gate = at_gate(held)
    assert isinstance(gate, Refused) and gate.reason in STOPS[name][1]
    assert not SendAttempt.objects.filter(message=message).exists()


@pytest.mark.parametrize("name", STOPS)
def test_a_gate_that_opens_after_the_commit_of_a_stop_never_lets_the_mail_through(name: str) -> None:
    passed_first = 0
    for _ in range(ROUNDS):
        message = make_message()
        stop, held = STOPS[name][0](message), hold(message.campaign)
        committed = threading.Event()

        def race(
            who: int, stop: Stop = stop, held: Held = held, committed: threading.Event = committed
        ) -> tuple[bool, Any] | None:
            if who:
                try:
                    stop()
                except AssertionError:
                    return None  # our mail came first, and its quiet period stopped the other one
                committed.set()
                return None
            before = committed.is_set()
            return before, at_gate(held)

        ((before, gate),) = [result for result in at_once(2, race) if result is not None]
        assert not (before and isinstance(gate, Begun))
        assert isinstance(gate, Begun) == SendAttempt.objects.filter(message=message).exists()
        if isinstance(gate, Refused):
            assert gate.reason in STOPS[name][1]
        passed_first += isinstance(gate, Begun)
    print(f"{name}: the gate came first in {passed_first} of {ROUNDS} rounds")


def test_an_agent_that_begins_while_its_recipient_unsubscribes_gets_the_mail_or_a_409_never_both() -> None:
    for _ in range(ROUNDS):
        message = make_message()
        agent, stop = Asking(), unsubscribe(message)
        claim = agent.get("mail/claims", campaign=message.campaign_id)
        path = f"mail/claims/{claim['claim']}/messages/{message.pk}/begin"
        committed = threading.Event()

        def race(who: int, agent: Asking = agent, path: str = path, stop: Stop = stop, done: Any = committed) -> Any:
            if who:
                stop()
                done.set()
                return None
            return done.is_set(), agent.post(path)

        ((before, (code, _)),) = [result for result in at_once(2, race) if result is not None]
        assert code in (200, 409) and not (before and code == 200)
        assert (code == 200) == SendAttempt.objects.filter(message=message).exists()
