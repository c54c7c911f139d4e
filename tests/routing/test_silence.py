"""A source that falls silent is seen and logged once, and is well again by itself."""

from datetime import timedelta

import pytest
from django.utils import timezone

from routing.models import InboundEvent, InboundSource
from routing.silence import Watched, watch
from routing.tasks import watch_sources
from tests.make import make_source
from tests.routing.senders import send

pytestmark = pytest.mark.django_db(transaction=True)


def hours_ago(hours):
    return timezone.now() - timedelta(hours=hours)


def heard(source, *, hours):
    """Its latest event came so many hours ago, and it has been watched for longer."""
    if not source.events.exists():
        send(source)
    InboundEvent.objects.filter(source=source).update(received_at=hours_ago(hours))
    InboundSource.objects.filter(pk=source.pk).update(watched_from=hours_ago(1000))


def test_a_meta_source_whose_token_died_is_silent_after_three_hours_logged_once_and_heard_again(caplog):
    source = make_source(slug="meta", expects_within_h=3)
    heard(source, hours=3.1)
    assert [watch(), watch()] == [Watched(1, 0), Watched(0, 0)]
    assert caplog.text.count("source silent source=meta expected_within_h=3") == 1
    row = InboundSource.objects.silent().get()
    assert row.silent_since == row.events.get().received_at

    send(source)

    assert [watch(), watch()] == [Watched(0, 1), Watched(0, 0)]
    assert caplog.text.count("source heard again source=meta") == 1
    assert not InboundSource.objects.silent().exists()


def test_a_source_heard_in_time_without_expectation_or_switched_off_is_never_silent():
    heard(make_source(expects_within_h=3), hours=2.9)
    heard(make_source(), hours=500)
    off = make_source(expects_within_h=3)
    heard(off, hours=500)
    InboundSource.objects.filter(pk=off.pk).update(active=False)
    assert watch_sources() == {"silent": 0, "heard": 0}


def test_a_source_that_never_sent_anything_has_its_time_from_when_it_was_made():
    source = make_source(expects_within_h=3)
    assert watch() == Watched(0, 0)
    InboundSource.objects.filter(pk=source.pk).update(watched_from=hours_ago(4))
    assert watch() == Watched(1, 0)


def test_an_event_of_which_no_lead_could_be_made_is_a_sign_of_life():
    source = make_source(expects_within_h=3)
    InboundSource.objects.filter(pk=source.pk).update(watched_from=hours_ago(4))
    assert send(source, {"first_name": "Pat"}).status_code == 422
    assert watch() == Watched(0, 0)


def test_a_silent_source_that_is_switched_off_is_no_alarm_any_more():
    source = make_source(expects_within_h=3)
    heard(source, hours=4)
    watch()
    InboundSource.objects.filter(pk=source.pk).update(active=False)
    assert watch() == Watched(0, 1)
