"""Invariants that need the whole machinery. The others stand beside what they are about, under the same numbers:

I1 tests/drills/test_outreach_kills; I2, I7, I16 tests/races/test_outreach_claims; I3, I8, I11 test_gate; I4, I5, I6,
I8, I9, I10, I14 test_settling; I11 tests/races/test_outreach_layers; I12 test_sender. Here: I5, I9, I10, I13, I15, I17.
"""

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from crmsync.models import CrmRecord, OutboxMessage
from outreach.flows.reaping import reap_all
from outreach.flows.sender import send_due
from outreach.models import Claim, Message, SendAttempt, SendingState
from outreach.moves.sending import switch_off, switch_on, why_off
from routing.models import Lead
from tests.outreach.make import expire, hold, make_message, make_running
from tests.outreach.relays import DROP, Stall, scripted, sink
from tests.outreach.test_sender import relay_at
from tests.outreach.test_settling import assert_events_play_back

pytestmark = pytest.mark.django_db(transaction=True)


def test_sent_messages_and_accepted_tries_are_the_same_and_no_lead_is_missing_i5_i9_i10(settings: Any) -> None:
    campaign = make_running(leads=10)
    replies: list[Any] = ["250 ok", "450 later", "250 ok", "554 spam", DROP]
    with scripted({"dot": replies}) as relay:
        relay_at(settings, relay.port)
        send_due(worker="w1")
    Message.objects.filter(status="due").update(due_at=campaign.launched_at)
    hold(campaign)
    expire()
    reap_all()
    accepted = set(SendAttempt.objects.filter(status="accepted").values_list("message_id", flat=True))
    assert accepted == set(Message.objects.filter(status="sent").values_list("pk", flat=True))
    assert sum(Counter(Message.objects.values_list("status", flat=True)).values()) == 10
    assert not Claim.objects.expired().exists() and not Message.objects.filter(status__in=Message.HELD).exists()
    assert_events_play_back()


def test_each_sent_step_reaches_the_crm_as_one_version_in_order_i13(settings: Any, tmp_path: Path) -> None:
    settings.CRM_MAIL_FIELDS = {"last_campaign_step": "Last_Campaign_Step__c"}
    make_running(steps=3)
    Lead.objects.update(first_assigned_at=Now())
    make_running()  # its lead waits for a rep: the CRM does not know it yet
    with sink(tmp_path) as relay:
        relay_at(settings, relay.port)
        assert send_due(worker="w1").sent == 4
    assert CrmRecord.objects.get().version == 3
    newest = OutboxMessage.objects.newest().get()
    assert newest.fields["last_campaign_step"] == 3
    assert OutboxMessage.objects.filter(status="superseded").count() == 2


@pytest.mark.parametrize("phase", ["connect", "mail", "rcpt", "data", "dot"])
def test_no_transaction_is_open_while_the_relay_is_spoken_to_i15(settings: Any, phase: str) -> None:
    make_message()
    stall = Stall()
    with scripted({phase: [stall]}) as relay:
        relay_at(settings, relay.port, EMAIL_PHASE_TIMEOUT_S=20, EMAIL_REPLY_TIMEOUT_S=20)
        thread = threading.Thread(target=sender)
        thread.start()
        assert stall.reached.wait(20)
        states = backend_states()
        stall.go.set()
        thread.join()
    assert not [state for state in states if state.startswith("idle in transaction")], states
    assert Message.objects.get().status == "sent"


def sender() -> None:
    try:
        send_due(worker="w1")
    finally:
        connection.close()


def backend_states() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT state FROM pg_stat_activity WHERE datname = current_database()")
        return [state or "" for (state,) in cursor.fetchall()]


def test_a_restored_or_promoted_database_starts_with_sending_off_until_somebody_confirms_i17(settings: Any) -> None:
    make_message()
    SendingState.objects.update(epoch="another cluster/1/2")  # as a restored backup would carry it
    with scripted() as relay:
        relay_at(settings, relay.port)
        assert "restored" in send_due(worker="w1").stopped
        assert relay.connections == 0 and Message.objects.get().status == "due"
        switch_on(by="Pat", reason="compared with the relay's log")
        assert send_due(worker="w1").sent == 1


def test_what_a_person_switched_off_is_not_switched_on_by_a_shorter_stop() -> None:
    assert why_off(worker="w1") == ""
    switch_off(because="the provider asked us to", worker="Pat")
    switch_off(because="535", worker="w1", for_s=0)
    assert why_off(worker="w1") == "the provider asked us to"
    switch_on(by="Pat", reason="they are happy now")
    switch_off(because="535", worker="w1", for_s=0)
    assert why_off(worker="w1") == ""  # it has ended by itself
