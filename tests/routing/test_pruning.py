"""Old bodies are forgotten, young ones and the facts stay."""

from datetime import timedelta

import pytest
from django.utils import timezone

from routing.models import Delivery, InboundEvent
from routing.pruning import prune_bodies
from routing.tasks import prune_bodies as task
from tests.make import make_payload, make_source
from tests.routing.senders import send

pytestmark = pytest.mark.django_db(transaction=True)


def deliver(count, *, days=0):
    source = make_source()
    newest = Delivery.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    for _ in range(count):
        send(source)
    Delivery.objects.filter(pk__gt=newest).update(received_at=timezone.now() - timedelta(days=days))


def bodies():
    return Delivery.objects.filter(body__isnull=False).count()


def test_bodies_older_than_the_setting_are_forgotten_and_what_events_said_stays(settings):
    settings.BODY_KEPT_DAYS = 7
    deliver(3, days=8)
    deliver(2, days=6)
    assert task() == {"pruned": 3}
    assert (bodies(), Delivery.objects.count()) == (2, 5)
    assert all(event.payload["email"] for event in InboundEvent.objects.all())
    assert task() == {"pruned": 0}


def test_pruning_goes_on_where_it_stopped_over_many_small_steps_and_over_replays():
    deliver(2, days=9)
    source = make_source()
    payload = make_payload()
    for _ in range(4):
        send(source, payload, event_id="evt_1")
    Delivery.objects.update(received_at=timezone.now() - timedelta(days=9))
    deliver(1)
    assert prune_bodies(days=7, most=2) == 3
    assert bodies() == 1
    Delivery.objects.update(received_at=timezone.now() - timedelta(days=8))
    assert prune_bodies(days=7, most=2) == 1 and bodies() == 0


def test_a_young_delivery_stops_the_pruning_even_before_an_older_one():
    deliver(1)
    deliver(1, days=9)
    assert prune_bodies(days=7) == 0, "rows come in the order of time: this one began early and was committed late"
    Delivery.objects.update(received_at=timezone.now() - timedelta(days=9))
    assert prune_bodies(days=7) == 2
