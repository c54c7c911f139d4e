"""The gate: what it lets through, what it stops, and what becomes of what it stopped."""

from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from outreach.flows.launching import launch
from outreach.models import (
    Campaign,
    CampaignDay,
    Claim,
    Enrolment,
    Message,
    OutreachEvent,
    SendAttempt,
    SendingState,
    Suppression,
)
from outreach.moves.campaigns import pause
from outreach.moves.gate import Begun, Refused
from outreach.moves.reaper import reap
from outreach.moves.sending import switch_off
from outreach.moves.settling import settle
from outreach.moves.suppression import stop_sequence, suppress
from routing.models import Lead
from tests.outreach.make import (
    ACCEPTED,
    at_gate,
    expire,
    hold,
    make_campaign,
    make_leads,
    make_message,
    make_running,
    switched_on,
)

pytestmark = pytest.mark.django_db(transaction=True)


def refused(gate: Begun | Refused) -> str:
    assert isinstance(gate, Refused)
    return gate.reason


def unsubscribe(message: Message) -> None:
    with transaction.atomic():
        suppress(recipient_id=message.recipient_id, reason=Suppression.Reason.UNSUBSCRIBED, worker="test")


def test_a_claimed_message_passes_once_and_leaves_its_intent() -> None:
    held = hold(make_running())
    assert isinstance(at_gate(held), Begun)
    message, attempt = Message.objects.get(), SendAttempt.objects.get()
    assert (message.status, attempt.status, attempt.number, attempt.worker) == ("begun", "begun", 1, "w1")
    assert refused(at_gate(held)) == "the claim is lost"
    assert SendAttempt.objects.count() == 1


def test_a_message_of_another_claim_does_not_pass_i3() -> None:
    held = hold(make_running(leads=2), size=1)
    other = hold(Campaign.objects.get(), worker="w2", size=1)
    gate = at_gate(held, other.messages[0])
    assert refused(gate) == "the claim is lost"
    assert OutreachEvent.objects.get(kind="turned_away").layer == "claim"


def test_an_expired_lease_does_not_pass_whatever_the_workers_clock_says_i3(monkeypatch: Any) -> None:
    held = hold(make_running())
    expire()
    for offset in (-3 * 3_600, 3 * 3_600):
        moved = timezone.now() + timedelta(seconds=offset)
        monkeypatch.setattr("django.utils.timezone.now", lambda moved=moved: moved)
        assert refused(at_gate(held)) == "the lease has run out"
    assert not SendAttempt.objects.exists()


def test_a_reaped_claim_does_not_pass_and_the_refusal_is_logged_i8() -> None:
    held = hold(make_running())
    expire()
    reap()
    assert refused(at_gate(held)) == "the claim is lost"
    assert OutreachEvent.objects.filter(kind="turned_away", layer="claim", worker="w1").count() == 1


def test_the_gate_renews_a_lease_of_which_less_than_half_is_left() -> None:
    held = hold(make_running(leads=3), lease_s=100)
    before = Claim.objects.get()
    at_gate(held)
    assert Claim.objects.get().lease_until == before.lease_until, "all of it is left"
    ago = timedelta(seconds=60)
    Claim.objects.update(
        claimed_at=before.claimed_at - ago, heartbeat_at=before.heartbeat_at - ago, lease_until=before.lease_until - ago
    )
    at_gate(held, held.messages[1])
    renewed = Claim.objects.get().lease_until
    assert timedelta(0) < renewed - before.lease_until < timedelta(seconds=30), "for as long as it was given"
    at_gate(held, held.messages[2])
    assert Claim.objects.get().lease_until == renewed


def test_an_unsubscribe_before_the_gate_means_no_mail_i11() -> None:
    message = make_message()
    held = hold(message.campaign)
    with transaction.atomic():  # the row alone, as if the message had been skipped
        Suppression.objects.create(recipient_id=message.recipient_id, reason="unsubscribed")
    assert refused(at_gate(held)) == "the address wants no mail"
    message.refresh_from_db()
    assert (message.status, message.claim_id) == ("suppressed", None)
    assert Enrolment.objects.get().end_reason == "suppressed"


def test_an_unsubscribe_takes_out_claimed_messages_at_once() -> None:
    message = make_message()
    held = hold(message.campaign)
    unsubscribe(message)
    message.refresh_from_db()
    assert message.status == "suppressed"
    assert refused(at_gate(held)) == "the claim is lost"


def test_a_paused_campaign_passes_nothing_and_its_message_is_due_again() -> None:
    held = hold(make_running())
    assert pause(campaign_id=held.campaign)
    gate = at_gate(held)
    assert gate == Refused("campaign is not running", stop=True)
    assert Message.objects.get().status == "due"


def test_while_sending_is_off_nothing_passes() -> None:
    held = hold(make_running())
    switch_off(because="a test", worker="Pat")
    assert at_gate(held) == Refused("sending is off", stop=True)


def test_a_missing_sending_state_counts_as_off() -> None:
    held = hold(make_running())
    SendingState.objects.all().delete()
    assert at_gate(held) == Refused("sending is off", stop=True)


def test_a_stopped_sequence_is_cancelled_also_where_it_was_claimed() -> None:
    message = make_message()
    held = hold(message.campaign)
    assert stop_sequence(enrolment_id=message.enrolment_id, reason=Enrolment.EndReason.REPLIED, worker="test")
    message.refresh_from_db()
    assert (message.status, message.reason) == ("cancelled", "replied")
    assert refused(at_gate(held)) == "the claim is lost"


def second_campaign(first: Campaign, *, body: str = "Something else", **fields: Any) -> Campaign:
    campaign = make_campaign(**fields)
    campaign.steps.update(body=body)
    launch(campaign_id=campaign.pk, leads=list(first.enrolments.values_list("lead_id", flat=True)), by="test")
    campaign.refresh_from_db()
    return campaign


def test_the_quiet_period_holds_over_campaigns_and_puts_the_message_off(settings: Any) -> None:
    first = make_running()
    at_gate(hold(first))
    second = second_campaign(first)
    assert refused(at_gate(hold(second))) == "quiet period"
    message = second.messages.get()
    assert message.status == "due"
    begun = SendAttempt.objects.get().begun_at
    assert message.due_at == begun + timedelta(hours=settings.QUIET_PERIOD_H)


def test_after_the_quiet_period_the_other_campaign_may_write(settings: Any) -> None:
    first = make_running()
    at_gate(hold(first))
    SendAttempt.objects.update(begun_at=timezone.now() - timedelta(hours=settings.QUIET_PERIOD_H, seconds=1))
    assert isinstance(at_gate(hold(second_campaign(first))), Begun)


def test_the_same_content_from_another_campaign_is_cancelled_even_if_its_list_differs(settings: Any) -> None:
    settings.QUIET_PERIOD_H = 0
    first = make_running()
    second = make_campaign()
    step = first.steps.get()
    second.steps.update(subject=step.subject, body=step.body)
    extra = Lead.objects.create(team=Lead.objects.get().team, email="new@acme.example")
    launch(campaign_id=second.pk, leads=[Lead.objects.earliest("pk").pk, extra.pk], by="another")
    at_gate(hold(first))  # after the launch, which would have left them out
    held = hold(second)
    gates = [at_gate(held, message) for message in held.messages]
    assert refused(gates[0]) == "another campaign sent the same content"
    assert isinstance(gates[1], Begun)


def test_the_daily_pace_is_kept_and_the_rest_waits_for_tomorrow() -> None:
    held = hold(make_running(leads=3, daily_pace=2, zone="Pacific/Auckland"))
    gates = [at_gate(held, message) for message in held.messages]
    assert [isinstance(gate, Begun) for gate in gates] == [True, True, False]
    assert refused(gates[2]) == "the day's pace is reached"
    assert CampaignDay.objects.get().begun == 2
    put_off = Message.objects.get(status="due")
    assert timedelta(0) < put_off.due_at - timezone.now() <= timedelta(hours=25)


def test_outside_the_window_a_message_waits_for_the_next_opening_in_the_campaigns_zone() -> None:
    local = timezone.now().astimezone(ZoneInfo("Asia/Kolkata"))
    opens = (local + timedelta(hours=1)).replace(microsecond=0)
    closes = opens + timedelta(minutes=1)
    if closes.date() != local.date():
        opens, closes = local - timedelta(hours=2), local - timedelta(hours=1)
    held = hold(make_running(zone="Asia/Kolkata", window_from=opens.time(), window_until=closes.time()))
    assert refused(at_gate(held)) == "outside the sending window"
    due = Message.objects.get().due_at.astimezone(ZoneInfo("Asia/Kolkata"))
    assert due.time() == opens.time() and due > local


def test_in_the_leads_zone_the_window_is_kept_by_its_clock_and_the_pace_by_the_campaigns() -> None:
    there = timezone.now().astimezone(ZoneInfo("Asia/Tokyo"))
    opens = (there - timedelta(hours=1)).time() if there.hour else time()
    closes = (there + timedelta(hours=1)).time() if there.hour < 23 else time.max
    switched_on()
    leads = make_leads(4)
    for lead, country in zip(leads, ("Japan", "JP", "India", "US"), strict=True):
        Lead.objects.filter(pk=lead.pk).update(country=country)
    campaign = make_campaign(zone="UTC", window_in="lead", window_from=opens, window_until=closes, daily_pace=1)
    launch(campaign_id=campaign.pk, leads=[lead.pk for lead in leads], by="test")
    zones = campaign.enrolments.order_by("lead").values_list("zone", flat=True)
    assert list(zones) == ["Asia/Tokyo", "Asia/Tokyo", "Asia/Kolkata", None]

    held = hold(campaign)
    message_of = dict(campaign.messages.values_list("enrolment__lead", "pk"))
    gates = [at_gate(held, message_of[lead.pk]) for lead in leads]

    assert isinstance(gates[0], Begun)
    says = ["the day's pace is reached", "outside the sending window", "outside the sending window"]
    assert [refused(gate) for gate in gates[1:]] == says
    due = [Message.objects.get(pk=message_of[lead.pk]).due_at for lead in leads]
    day = CampaignDay.objects.get().day
    assert due[1] == datetime.combine(day + timedelta(days=1), time(), tzinfo=UTC)
    assert [due[2].astimezone(ZoneInfo("Asia/Kolkata")).time(), due[3].time()] == [opens, opens]
    assert all(timedelta(0) < moment - timezone.now() <= timedelta(days=1) for moment in due[1:])


def test_a_second_try_of_a_sent_step_is_cancelled_at_the_gate() -> None:
    held = hold(make_running())
    first = at_gate(held)
    assert isinstance(first, Begun)
    settle(attempt_id=first.attempt, outcome=ACCEPTED, worker="w1", token=held.token)
    Message.objects.update(status="due", sent_at=None)  # as if somebody had reset it by hand
    Enrolment.objects.update(ended_at=None, end_reason="")
    again = hold(Campaign.objects.get(), worker="w2")
    assert refused(at_gate(again)) == "a try of this step to this address may have gone out"
    assert SendAttempt.objects.count() == 1


def test_the_intent_is_flushed_before_the_answer_whatever_the_servers_default() -> None:
    held = hold(make_running())
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        cursor.execute("SELECT pg_current_wal_insert_lsn()")
        (before,) = cursor.fetchone()
        assert isinstance(at_gate(held), Begun)
        cursor.execute("SELECT pg_current_wal_flush_lsn() > %s::pg_lsn", [before])
        assert cursor.fetchone() == (True,)
        cursor.execute("RESET synchronous_commit")


def test_the_gate_is_one_statement_and_so_is_a_settlement() -> None:
    held = hold(make_running())
    with CaptureQueriesContext(connection) as asked:
        gate = at_gate(held)
        assert isinstance(gate, Begun)
        assert settle(attempt_id=gate.attempt, outcome=ACCEPTED, worker="w1", token=held.token)
    assert len(asked) == 2


def test_the_gate_is_its_own_transaction_and_says_so() -> None:
    held = hold(make_running())
    with pytest.raises(TransactionManagementError, match="durable"), transaction.atomic():
        at_gate(held)
    assert not SendAttempt.objects.exists()
