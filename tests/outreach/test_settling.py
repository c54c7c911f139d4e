"""Settle and reap: the message follows the ledger, and no machine sends again what may have gone out."""

from typing import Any

import pytest

from outreach.errors import ReasonMissing, TooEarly, WrongState
from outreach.mail.outcome import Outcome
from outreach.models import Claim, Enrolment, Message, OutreachEvent, SendAttempt, Suppression
from outreach.moves.claims import Held, end_claim, renew
from outreach.moves.doubt import it_did_not_go, it_went
from outreach.moves.gate import Begun
from outreach.moves.reaper import reap
from outreach.moves.settling import backoff_s, settle
from tests.outreach.make import (
    ACCEPTED,
    DEAD,
    DEFERRED,
    REFUSED,
    SILENCE,
    at_gate,
    expire,
    hold,
    make_begun,
    make_running,
)

pytestmark = pytest.mark.django_db(transaction=True)


def state() -> tuple[str, str]:
    """The status of the one message, and of its latest try."""
    return Message.objects.get().status, SendAttempt.objects.latest("number").status


@pytest.mark.parametrize(
    ("outcome", "message", "attempt"),
    [
        (ACCEPTED, "sent", "accepted"),
        (DEFERRED, "due", "deferred"),
        (REFUSED, "failed", "refused"),
        (DEAD, "failed", "refused"),
        (SILENCE, "in_doubt", "in_doubt"),
    ],
)
def test_an_outcome_settles_try_and_message_together_i5(outcome: Outcome, message: str, attempt: str) -> None:
    held, begun = make_begun()
    assert settle(attempt_id=begun.pk, outcome=outcome, worker="w1", token=held.token)
    assert state() == (message, attempt)
    assert not settle(attempt_id=begun.pk, outcome=ACCEPTED, worker="w1", token=held.token) or message == "in_doubt"


def test_nobody_settles_under_a_token_that_is_not_the_trys_own() -> None:
    _, begun = make_begun()
    other = hold(make_running())
    assert not settle(attempt_id=begun.pk, outcome=ACCEPTED, worker="w2", token=other.token)
    assert SendAttempt.objects.get(pk=begun.pk).status == "begun"


def test_a_dead_mailbox_is_suppressed_and_a_refused_content_is_not() -> None:
    held, begun = make_begun()
    settle(attempt_id=begun.pk, outcome=REFUSED, worker="w1", token=held.token)
    assert not Suppression.objects.exists()
    held, begun = make_begun()
    settle(attempt_id=begun.pk, outcome=DEAD, worker="w1", token=held.token)
    assert Suppression.objects.get().recipient_id == begun.recipient_id


def test_a_refusal_for_now_comes_back_later_each_time_with_jitter_that_only_adds(settings: Any) -> None:
    settings.SEND_BACKOFF_FIRST_S, settings.SEND_BACKOFF_CAP_S = 100, 350
    for attempts, least in ((0, 100), (1, 100), (2, 200), (3, 350), (30, 350)):
        waits = [backoff_s(attempts=attempts) for _ in range(50)]
        assert least <= min(waits) and max(waits) <= least * 1.2
        assert len(set(waits)) > 40


def test_a_message_refused_for_now_too_often_fails(settings: Any) -> None:
    settings.SEND_ATTEMPTS_MOST, settings.SEND_BACKOFF_FIRST_S = 2, 0
    campaign = make_running()
    for _ in range(2):
        held = hold(campaign)
        gate = at_gate(held)
        assert isinstance(gate, Begun)
        settle(attempt_id=gate.attempt, outcome=DEFERRED, worker="w1", token=held.token)
        end_claim(token=held.token)
    assert Message.objects.get().reason == "refused for now too often"
    assert SendAttempt.objects.count() == 2
    assert len(set(SendAttempt.objects.values_list("mail_id", flat=True))) == 1
    assert Enrolment.objects.get().end_reason == "failed"


def test_the_reaper_makes_due_what_was_not_begun_and_puts_in_doubt_what_was_i4() -> None:
    held = hold(make_running(leads=3))
    at_gate(held)
    expire()
    reaped = reap()
    assert (reaped.claims, reaped.due, reaped.in_doubt) == (1, 2, 1)
    assert Message.objects.get(pk=held.messages[0]).status == "in_doubt"
    assert SendAttempt.objects.get().status == "in_doubt"
    assert Claim.objects.get().end_reason == "expired"


def test_each_expiry_is_logged_once_with_the_losers_name_i7() -> None:
    held = hold(make_running(leads=3), worker="loser")
    expire()
    assert (reap().claims, reap().claims) == (1, 0)
    told = OutreachEvent.objects.filter(kind="expired")
    assert sorted(told.values_list("message_id", flat=True)) == sorted(held.messages)
    assert set(told.values_list("worker", flat=True)) == {"loser"}


def test_a_claim_whose_lease_runs_is_not_reaped_i9() -> None:
    hold(make_running())
    assert reap().claims == 0
    assert Message.objects.get().status == "claimed"


def test_settle_before_reap_leaves_the_reaper_nothing_i6() -> None:
    held, begun = make_begun()
    settle(attempt_id=begun.pk, outcome=ACCEPTED, worker="w1", token=held.token)
    expire()
    reap()
    assert state() == ("sent", "accepted")


def test_reap_before_settle_is_settled_by_the_late_report_i6() -> None:
    held, begun = make_begun()
    expire()
    reap()
    assert state() == ("in_doubt", "in_doubt")
    assert settle(attempt_id=begun.pk, outcome=ACCEPTED, worker="w1", token=held.token)
    assert state() == ("sent", "accepted")
    assert "(late)" in OutreachEvent.objects.get(kind="sent").reason


def test_late_evidence_never_reopens_a_refused_try() -> None:
    held, begun = make_begun()
    settle(attempt_id=begun.pk, outcome=REFUSED, worker="w1", token=held.token)
    assert not settle(attempt_id=begun.pk, outcome=ACCEPTED, worker="provider")
    assert state() == ("failed", "refused")
    assert OutreachEvent.objects.get(kind="late").reason == "accepted reported, was refused"


def test_a_late_refusal_for_now_makes_the_message_due_again_i4() -> None:
    held, begun = make_begun()
    expire()
    reap()
    assert settle(attempt_id=begun.pk, outcome=DEFERRED, worker="w1", token=held.token)
    assert state() == ("due", "deferred")


def test_a_stale_worker_changes_nothing_i8() -> None:
    held, _ = make_begun(leads=2)
    expire()
    reap()
    assert not renew(token=held.token, lease_s=60)
    assert end_claim(token=held.token) == 0
    assert sorted(Message.objects.values_list("status", flat=True)) == ["due", "in_doubt"]
    assert OutreachEvent.objects.filter(kind="turned_away", layer="claim", reason="renewed too late").exists()


def test_a_later_claim_is_a_larger_number_and_no_token_comes_twice_i8() -> None:
    campaign = make_running(leads=3)
    claims = [hold(campaign, size=1) for _ in range(3)]
    assert [c.claim for c in claims] == sorted({c.claim for c in claims})
    assert len({c.token for c in claims}) == 3


def test_a_claim_with_a_begun_message_is_left_to_the_reaper() -> None:
    held, _ = make_begun(leads=2)
    assert end_claim(token=held.token) == 1
    assert Claim.objects.live().count() == 1
    expire()
    assert reap().in_doubt == 1


def test_a_message_on_whose_claims_three_workers_died_is_set_aside_and_takes_no_other_down() -> None:
    campaign = make_running(leads=3)
    poison = Message.objects.earliest("pk")
    hold(campaign)
    expire()
    reap()
    for _ in range(2):
        held = hold(campaign)
        assert held.messages == (poison.pk,)  # what died once is claimed alone
        expire(held.claim)
        reap()
    poison.refresh_from_db()
    assert (poison.status, poison.reason) == ("failed", "its workers died")
    assert Message.objects.filter(status="due").count() == 2


def test_send_again_asks_why_and_unlocks_only_after_the_longest_hand_over_i4() -> None:
    _, begun = make_begun()
    expire()
    reap()
    with pytest.raises(ReasonMissing):
        it_did_not_go(attempt_id=begun.pk, by="Pat", reason=" ")
    with pytest.raises(TooEarly):
        it_did_not_go(attempt_id=begun.pk, by="Pat", reason="not in the relay's log")
    assert state() == ("in_doubt", "in_doubt")
    begin_earlier(begun)
    it_did_not_go(attempt_id=begun.pk, by="Pat", reason="not in the relay's log")
    assert state() == ("due", "disproved")
    assert OutreachEvent.objects.get(kind="resolved").worker == "Pat"


def begin_earlier(begun: SendAttempt) -> None:
    from datetime import timedelta

    SendAttempt.objects.filter(pk=begun.pk).update(begun_at=begun.begun_at - timedelta(hours=1))


def test_it_went_counts_as_sent_and_the_next_step_is_planned() -> None:
    _, begun = make_begun(steps=2)
    expire()
    reap()
    it_went(attempt_id=begun.pk, by="Pat")
    assert SendAttempt.objects.get().status == "accepted"
    assert sorted(Message.objects.values_list("status", flat=True)) == ["due", "sent"]


def test_what_is_in_flight_can_be_resolved_by_nobody_i14() -> None:
    _, begun = make_begun()
    begin_earlier(begun)
    with pytest.raises(WrongState):
        it_went(attempt_id=begun.pk, by="Pat")
    with pytest.raises(WrongState):
        it_did_not_go(attempt_id=begun.pk, by="Pat", reason="impatient")
    assert state() == ("begun", "begun")


def said_not_to_have_gone(**fields: Any) -> tuple[Held, SendAttempt]:
    """A try of which a person said that it did not go; its message is due again."""
    held, begun = make_begun(**fields)
    expire()
    reap()
    begin_earlier(begun)
    it_did_not_go(attempt_id=begun.pk, by="Pat", reason="sure")
    return held, begun


@pytest.mark.parametrize("claimed", [False, True])
def test_evidence_that_it_went_overrules_send_again_before_it_leaves_again(claimed: bool) -> None:
    held, begun = said_not_to_have_gone(steps=2)
    message = Message.objects.get()
    again = hold(message.campaign) if claimed else None
    assert settle(attempt_id=begun.pk, outcome=ACCEPTED, worker="w1", token=held.token)
    message.refresh_from_db()
    assert (message.status, SendAttempt.objects.get().status) == ("sent", "accepted")
    assert SendAttempt.objects.get().resolved_by == "Pat", "who was overruled is still known"
    told = OutreachEvent.objects.latest("pk")
    assert (told.kind, told.before) == ("sent", "claimed" if claimed else "due")
    assert "Pat had said that it did not go" in told.reason
    assert Message.objects.filter(status="due").count() == 1, "the sequence goes on"
    if again is not None:
        assert at_gate(again, message.pk).reason == "the claim is lost"  # type: ignore[union-attr]
    assert_events_play_back()


@pytest.mark.parametrize("outcome", [DEFERRED, REFUSED, SILENCE])
def test_any_other_evidence_after_send_again_is_an_event_and_nothing_else(outcome: Outcome) -> None:
    held, begun = said_not_to_have_gone()
    assert not settle(attempt_id=begun.pk, outcome=outcome, worker="w1", token=held.token)
    assert state() == ("due", "disproved")
    assert OutreachEvent.objects.latest("pk").kind == "late"


def test_evidence_that_it_went_after_it_has_begun_again_is_an_event_and_nothing_else() -> None:
    held, begun = said_not_to_have_gone()
    at_gate(hold(begun.message.campaign))
    assert not settle(attempt_id=begun.pk, outcome=ACCEPTED, worker="w1", token=held.token)
    assert sorted(SendAttempt.objects.values_list("status", flat=True)) == ["begun", "disproved"]
    assert OutreachEvent.objects.latest("pk").reason == "accepted reported, was disproved"
    assert_events_play_back()


def test_the_events_of_every_message_play_back_to_its_status_i10() -> None:
    held = hold(make_running(leads=5, steps=2))
    for message, outcome in zip(held.messages, (ACCEPTED, DEFERRED, REFUSED, SILENCE), strict=False):
        gate = at_gate(held, message)
        assert isinstance(gate, Begun)
        settle(attempt_id=gate.attempt, outcome=outcome, worker="w1", token=held.token)
    expire()
    reap()
    assert_events_play_back()


def assert_events_play_back() -> None:
    for message in Message.objects.all():
        status = "due"
        for event in message.events.order_by("pk"):
            assert event.before == status, (message.pk, event.kind)
            status = event.after
        assert status == message.status
