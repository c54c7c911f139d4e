"""The way out: scanners follow links and change nothing; one click without a cookie is enough."""

import pytest
from django.test import Client
from django.urls import reverse

from outreach.mail.links import unsubscribe_url
from outreach.models import Message, Suppression
from tests.outreach.make import hold, make_message

pytestmark = pytest.mark.django_db(transaction=True)
ONE_CLICK = {"List-Unsubscribe": "One-Click"}


def link(message: Message) -> str:
    return "/unsubscribe/" + unsubscribe_url(recipient_id=message.recipient_id).rpartition("/")[2]


def test_get_and_head_change_nothing() -> None:
    message = make_message()
    client = Client(enforce_csrf_checks=True)
    assert client.get(link(message)).status_code == 200
    assert client.head(link(message)).status_code == 200
    assert b'method="post"' in client.get(link(message)).content
    assert not Suppression.objects.exists()
    assert Message.objects.get().status == "due"


def test_one_click_without_a_cookie_suppresses_claimed_messages_included_and_is_idempotent() -> None:
    message = make_message()
    hold(message.campaign)
    client = Client(enforce_csrf_checks=True)
    for _ in range(3):
        assert client.post(link(message), ONE_CLICK).status_code == 200
    assert Suppression.objects.get().reason == "unsubscribed"
    assert Message.objects.get().status == "suppressed"


def test_the_page_names_no_address() -> None:
    message = make_message()
    page = Client().get(link(message)).content.decode()
    assert message.enrolment.address not in page
    assert "no-store" in Client().get(link(message))["Cache-Control"]


def test_a_link_that_was_cut_off_or_made_up_suppresses_nobody() -> None:
    message = make_message()
    for token in (link(message)[:-3], reverse("unsubscribe", args=["1:abc"])):
        assert Client().post(token, ONE_CLICK).status_code == 404
    assert not Suppression.objects.exists()
