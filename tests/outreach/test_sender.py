"""The sender, from due to sent, against a real relay in its own process."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from crmsync.models import OutboxMessage
from outreach.flows.sender import HELD_BY_ANOTHER, JOB, send_due
from outreach.models import Claim, Enrolment, Message, OutreachEvent, SendAttempt, SendingState, Suppression
from outreach.moves import job_lock
from outreach.moves.campaigns import finish_done, pause
from tests.outreach.make import make_message, make_running
from tests.outreach.relays import DROP, scripted, sink

pytestmark = pytest.mark.django_db(transaction=True)


def relay_at(settings: Any, port: int, **more: Any) -> None:
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    settings.EMAIL_PHASE_TIMEOUT_S, settings.EMAIL_REPLY_TIMEOUT_S = 2, 2
    for name, value in more.items():
        setattr(settings, name, value)


def statuses() -> Counter[str]:
    return Counter(Message.objects.values_list("status", flat=True))


def test_everybody_due_is_mailed_once(settings: Any, tmp_path: Path) -> None:
    make_running(leads=12)
    with sink(tmp_path) as relay:
        relay_at(settings, relay.port)
        done = send_due(worker="w1", batch=5)
        again = send_due(worker="w2")
        delivered = relay.deliveries()
    assert (done.sent, again.sent) == (12, 0)
    assert len(delivered) == 12 and set(delivered.values()) == {1}
    assert statuses() == {"sent": 12}
    assert set(Enrolment.objects.values_list("end_reason", flat=True)) == {"completed"}
    assert not OutboxMessage.objects.exists(), "the org has no fields for it"
    assert not Claim.objects.live().exists()
    assert finish_done() == 1


def test_the_next_step_comes_after_its_delay_and_only_after_the_first_was_sent(settings: Any, tmp_path: Path) -> None:
    campaign = make_running(steps=2, delay=timedelta(days=3))
    with sink(tmp_path) as relay:
        relay_at(settings, relay.port)
        assert send_due(worker="w1").sent == 1
        first, second = Message.objects.order_by("step__order")
        assert second.due_at - first.sent_at == timedelta(days=3)  # type: ignore[operator]
        assert send_due(worker="w1").sent == 0
        Message.objects.filter(pk=second.pk).update(due_at=first.sent_at)
        assert send_due(worker="w1").sent == 1
        assert set(relay.deliveries().values()) == {1} and len(relay.deliveries()) == 2
    assert campaign.enrolments.get().end_reason == "completed"


def test_one_refused_row_leaves_the_rest_of_the_batch_alone_i12(settings: Any) -> None:
    make_running(leads=3)
    with scripted({"rcpt": ["250 ok", "550 5.1.1 no such user", "250 ok"]}) as relay:
        relay_at(settings, relay.port)
        done = send_due(worker="w1")
        assert len(relay.kept) == 2
    assert (done.sent, done.refused) == (2, 1)
    assert statuses() == {"sent": 2, "failed": 1}
    assert Suppression.objects.get().reason == "bounced"


def test_a_row_that_cannot_be_written_fails_alone_i12(settings: Any) -> None:
    campaign = make_running(leads=3)
    bad = campaign.enrolments.order_by("pk")[1]
    Enrolment.objects.filter(pk=bad.pk).update(address="a b@@example")
    with scripted() as relay:
        relay_at(settings, relay.port)
        done = send_due(worker="w1")
    assert (done.sent, done.given_up) == (2, 1)
    assert Message.objects.get(enrolment=bad).status == "failed"


def test_refused_credentials_stop_the_sender_and_fail_no_lead(settings: Any) -> None:
    make_running(leads=3)
    with scripted({"auth": "535 5.7.8 no"}, extensions=("AUTH PLAIN",)) as relay:
        relay_at(settings, relay.port, EMAIL_HOST_USER="rota", EMAIL_HOST_PASSWORD="wrong")
        done = send_due(worker="w1")
        assert done.sent == 0 and "535" in done.stopped
        connections = relay.connections
        assert send_due(worker="w2").stopped == done.stopped
        assert relay.connections == connections
    assert statuses() == {"due": 3}
    assert not SendAttempt.objects.exists()
    assert SendingState.objects.get().off_until is not None


def test_a_refused_sender_address_stops_the_sender_and_charges_no_lead(settings: Any) -> None:
    make_running(leads=3)
    with scripted({"mail": "550 5.7.1 not your address"}) as relay:
        relay_at(settings, relay.port)
        done = send_due(worker="w1")
    assert "550" in done.stopped
    assert statuses() == {"due": 3}
    assert sorted(Message.objects.values_list("attempts", flat=True)) == [0, 0, 0]


def test_a_relay_that_is_down_costs_no_message_anything(settings: Any) -> None:
    make_running(leads=3)
    with scripted({"connect": DROP}) as relay:
        relay_at(settings, relay.port)
        done = send_due(worker="w1")
    assert done.stopped and done.released == 3
    assert statuses() == {"due": 3}
    assert not SendAttempt.objects.exists()


def test_a_relay_that_hangs_up_after_two_mails_is_called_again(settings: Any) -> None:
    make_running(leads=4)
    with scripted({"mail": ["250 ok", "250 ok", "421 too many", "250 ok"]}) as relay:
        relay_at(settings, relay.port)
        done = send_due(worker="w1")
        assert relay.connections == 2
    assert (done.sent, done.deferred) == (3, 1)
    assert statuses() == {"sent": 3, "due": 1}


def test_three_mails_in_a_row_that_the_connection_did_not_carry_end_the_run(settings: Any) -> None:
    make_running(leads=10)
    with scripted({"rcpt": DROP}) as relay:
        relay_at(settings, relay.port)
        done = send_due(worker="w1")
    assert (done.deferred, done.released) == (3, 7)
    assert statuses() == {"due": 10}


def test_whoever_does_not_get_the_job_lock_goes_home_and_says_so(settings: Any, capsys: Any) -> None:
    make_message()
    with scripted() as relay:
        relay_at(settings, relay.port)
        token = job_lock.take(name=JOB, worker="w1", lease_s=60)
        assert token is not None
        call_command("send_due")  # exits 0
        assert HELD_BY_ANOTHER in capsys.readouterr().out
        assert OutreachEvent.objects.filter(kind="turned_away", layer="job_lock").count() == 1
        job_lock.release(name=JOB, token=token)
        assert send_due(worker="w2").sent == 1


def test_what_came_of_a_mail_is_written_down_before_the_job_lock_is_renewed(settings: Any, monkeypatch: Any) -> None:
    """Where that takes long, a sender that dies meanwhile leaves nothing in doubt that the relay has answered."""
    make_running(leads=3)
    renew, begun = job_lock.renew, []

    def slowly(**arguments: Any) -> bool:
        begun.append(Message.objects.filter(status="begun").count())
        return renew(**arguments)

    monkeypatch.setattr(job_lock, "renew", slowly)
    monkeypatch.setattr("outreach.flows.sender.JOB_LEASE_S", 0.001)  # renewed before every mail
    with scripted() as relay:
        relay_at(settings, relay.port)
        assert send_due(worker="w1").sent == 3
    assert len(begun) >= 3 and not any(begun)


def test_a_paused_campaign_stops_within_one_batch(settings: Any) -> None:
    campaign = make_running(leads=5)

    def pause_then_take() -> str:
        assert pause(campaign_id=campaign.pk) or relay.kept[1:]
        connection.close()
        return "250 queued"

    with scripted({"dot": pause_then_take}) as relay:
        relay_at(settings, relay.port)
        done = send_due(worker="w1")
        assert len(relay.kept) == 1
    assert (done.sent, done.turned_away, done.released) == (1, 1, 3)
    assert statuses() == {"sent": 1, "due": 4}


def test_an_address_outside_ascii_needs_a_relay_that_can_carry_it(settings: Any) -> None:
    campaign = make_running(leads=2)
    plain, fancy = campaign.enrolments.order_by("pk")
    Enrolment.objects.filter(pk=fancy.pk).update(address="zoë@straße.example")
    with scripted() as relay:
        relay_at(settings, relay.port)
        done = send_due(worker="w1")
    assert (done.sent, done.given_up) == (1, 1)
    assert Message.objects.get(enrolment=fancy).reason.startswith("the relay does not speak SMTPUTF8")


def test_an_address_outside_ascii_is_carried_by_a_relay_that_can(settings: Any, tmp_path: Path) -> None:
    campaign = make_running()
    Enrolment.objects.filter(campaign=campaign).update(address="zoë@straße.example")
    with sink(tmp_path) as relay:
        relay_at(settings, relay.port)
        assert send_due(worker="w1").sent == 1
        assert list(relay.addresses()) == ["zoë@xn--strae-oqa.example"]


def test_without_a_relay_nothing_is_claimed(settings: Any) -> None:
    make_message()
    settings.EMAIL_HOST = ""
    assert send_due(worker="w1").stopped == "no relay is configured"
    assert not Claim.objects.exists()
