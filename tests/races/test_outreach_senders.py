"""Whole senders race: for one list, with a launch, with a reaper that hangs, with a database that drops them."""

import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from outreach.flows.launching import launch
from outreach.flows.sender import send_due
from outreach.models import Campaign, Claim, Enrolment, Message
from outreach.moves import campaigns
from outreach.moves.campaigns import Person, pause, resume
from outreach.moves.reaper import reap
from routing.models import Lead
from tests.outreach.make import expire, hold, make_campaign, make_leads, make_running, switched_on
from tests.outreach.relays import scripted, sink
from tests.outreach.test_sender import relay_at
from tests.races.test_outreach_claims import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_negative_control_two_senders_that_read_the_list_first_mail_everybody_twice(
    settings: Any, tmp_path: Path
) -> None:
    make_running(leads=10)
    both_have_read = threading.Barrier(2)
    with sink(tmp_path) as relay:
        relay_at(settings, relay.port)

        def naive(_: int) -> None:
            import smtplib

            due = list(Message.objects.due().values_list("enrolment__address", flat=True))
            both_have_read.wait()
            with smtplib.SMTP("127.0.0.1", relay.port) as connected:
                for address in due:
                    connected.sendmail("pat@rota.example", [address], b"Message-ID: <1@x>\r\n\r\nhi")

        at_once(2, naive)
        assert set(relay.addresses().values()) == {2}


def test_two_senders_that_start_together_on_fifty_rows_deliver_fifty(settings: Any, tmp_path: Path) -> None:
    make_running(leads=50)
    with sink(tmp_path) as relay:
        relay_at(settings, relay.port)
        sent = at_once(2, lambda n: send_due(worker=f"w{n}", job=f"job {n}", batch=5).sent)
        assert sum(sent) == 50 and all(sent)
        assert len(relay.addresses()) == 50 and set(relay.addresses().values()) == {1}


def test_a_sender_woken_before_the_launch_is_committed_finds_nothing_and_the_next_sends(settings: Any) -> None:
    switched_on()
    campaign = make_campaign()
    leads = [lead.pk for lead in make_leads(2)]
    inside, go = threading.Event(), threading.Event()

    def launch_slowly() -> None:
        with transaction.atomic():
            campaigns.launch(
                campaign_id=campaign.pk,
                people=[Person(pk, f"{pk}@acme.example", f"{pk}@acme.example") for pk in leads],
                by="test",
                audience_digest="a",
                content_digest="c",
                step_digests={},
            )
            inside.set()
            go.wait(20)
        connection.close()

    thread = threading.Thread(target=launch_slowly)
    thread.start()
    assert inside.wait(20)
    with scripted() as relay:
        relay_at(settings, relay.port)
        early = send_due(worker="w1")
        go.set()
        thread.join()
        assert (early.sent, early.stopped) == (0, "") and send_due(worker="w1").sent == 2


def test_a_launch_that_waits_for_one_that_is_rolled_back_enrols_in_its_place() -> None:
    campaign = make_campaign()
    lead = make_leads(1)[0]
    inside, go = threading.Event(), threading.Event()
    launched: list[int | None] = []

    def launch_it(*, fails: bool) -> None:
        try:
            with transaction.atomic():
                enrolled = campaigns.launch(
                    campaign_id=campaign.pk,
                    people=[Person(lead.pk, lead.email, lead.email)],
                    by="test",
                    audience_digest="a",
                    content_digest="c",
                    step_digests={},
                )
                if fails:
                    inside.set()
                    go.wait(20)
                    raise ConnectionError("it died here")
            launched.append(enrolled)
        except ConnectionError:
            pass
        finally:
            connection.close()

    first = threading.Thread(target=lambda: launch_it(fails=True))
    first.start()
    assert inside.wait(20)
    second = threading.Thread(target=lambda: launch_it(fails=False))
    second.start()
    second.join(0.3)
    assert second.is_alive(), "it waits for the first one's end"
    go.set()
    first.join()
    second.join()
    assert launched == [1] and Enrolment.objects.count() == 1


def test_pause_and_resume_in_the_middle_mail_the_rest_and_nobody_again(settings: Any) -> None:
    campaign = make_running(leads=10)
    taken = 0

    def pause_at_three() -> str:
        nonlocal taken
        taken += 1
        if taken == 3:
            pause(campaign_id=campaign.pk)
            connection.close()
        return "250 queued"

    with scripted({"dot": pause_at_three}) as relay:
        relay_at(settings, relay.port)
        assert send_due(worker="w1").sent == 3
        assert resume(campaign_id=campaign.pk)
        assert send_due(worker="w2").sent == 7
        assert len(relay.kept) == len(set(relay.kept)) == 10


def test_a_reaper_that_hangs_holding_its_rows_does_not_hold_up_the_next() -> None:
    campaign = make_running(leads=4)
    stuck = hold(campaign, size=2)
    other = hold(campaign, size=2, worker="w2")
    expire()
    inside, go = threading.Event(), threading.Event()

    def hang() -> None:
        with transaction.atomic():
            list(Claim.objects.filter(pk=stuck.claim).select_for_update(no_key=True))
            inside.set()
            go.wait(20)
        connection.close()

    thread = threading.Thread(target=hang)
    thread.start()
    assert inside.wait(20)
    assert reap().claims == 1 and Claim.objects.get(pk=other.claim).end_reason == "expired"
    go.set()
    thread.join()
    assert reap().claims == 1 and Message.objects.filter(status="due").count() == 4


def test_a_database_that_drops_the_sender_after_the_relay_took_the_mail_costs_no_second_mail(settings: Any) -> None:
    make_running()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()

    def drop_it() -> str:
        with connection.cursor() as cursor:  # the relay's thread has a connection of its own
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        connection.close()
        return "250 queued"

    with scripted({"dot": drop_it}) as relay:
        relay_at(settings, relay.port)
        done = send_due(worker="w1")
        assert done.sent == 1 and Message.objects.get().status == "sent"
        assert send_due(worker="w2").sent == 0 and len(relay.kept) == 1


def test_two_lists_that_share_an_address_mail_it_once_within_the_quiet_period(settings: Any, tmp_path: Path) -> None:
    first = make_running(leads=3)
    shared = first.enrolments.order_by("pk")[0].lead_id
    second = make_campaign()
    launch(campaign_id=second.pk, leads=[shared, *(lead.pk for lead in make_leads(2))], by="another agent")
    with sink(tmp_path) as relay:
        relay_at(settings, relay.port)
        at_once(2, lambda n: send_due(worker=f"w{n}", job=f"job {n}", batch=1))
        assert relay.addresses()[Lead.objects.get(pk=shared).email] == 1
        assert len(relay.addresses()) == 5 and set(relay.addresses().values()) == {1}
    assert Campaign.objects.filter(status="running").count() == 2
