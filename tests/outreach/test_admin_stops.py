"""What stops mail, in the admin: suppressions by hand, the switch for all of it, and who holds what."""

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from outreach.models import Message, Recipient, SendingState, Suppression
from outreach.moves.sending import seen, switch_off
from tests.outreach.make import at_gate, hold, make_message, make_running, switched_on
from tests.staff import ask, confirm, hands_on, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db(transaction=True)
SUPPRESSION, SENDING = "outreach_suppression", "outreach_sendingstate"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def enter(staff: Client, address: str) -> None:
    given = {"address": address, "reason": "asked", "detail": "By phone"}
    hands_on(staff, reverse("admin:outreach_suppression_add"), given)


def test_an_address_entered_by_hand_gets_nothing_more_claimed_mails_included(staff: Client) -> None:
    message = make_message()
    held = hold(message.campaign)

    enter(staff, message.enrolment.address.upper())

    suppression = Suppression.objects.get()
    assert (suppression.reason, suppression.detail) == ("asked", "By phone (robin)")
    assert Message.objects.get().status == "suppressed"
    assert at_gate(held).reason == "the claim is lost"  # type: ignore[union-attr]


def test_an_address_nobody_has_written_to_yet_can_be_suppressed_once(staff: Client) -> None:
    enter(staff, "New@Acme.example")
    again = {"address": "new@acme.example", "reason": "asked", "detail": "x"}
    answer = staff.post(reverse("admin:outreach_suppression_add"), again)

    assert "suppressed already" in answer.content.decode()
    assert Recipient.objects.get().key == "new@acme.example"
    assert Suppression.objects.count() == 1
    assert staff.post(page_of(SUPPRESSION, Suppression.objects.get().pk), again).status_code == 403


def test_lifting_wants_a_reason_and_keeps_the_row(staff: Client) -> None:
    enter(staff, "new@acme.example")
    pk = Suppression.objects.get().pk
    assert "asked for it" in ask(staff, SUPPRESSION, "lift_selected", pk).content.decode()
    assert "Say why" in confirm(staff, SUPPRESSION, "lift_selected", pk).content.decode()
    assert Suppression.objects.filter(lifted_at=None).exists()

    assert said(confirm(staff, SUPPRESSION, "lift_selected", pk, reason="They wrote to us")) == ["Lifted 1."]
    assert Suppression.objects.get().lifted_because == "They wrote to us (robin)"


def test_the_switch_wants_a_reason_and_tells_who(staff: Client) -> None:
    switched_on()
    assert staff.post(listed(SENDING), {"switch": "off", "reason": " "}).status_code == 200
    assert seen().off == ""

    staff.post(listed(SENDING), {"switch": "off", "reason": "Wrong price in the text"})
    assert seen().off == "Wrong price in the text (robin)"
    assert "Wrong price in the text (robin)" in staff.get(listed(SENDING)).content.decode()

    staff.post(listed(SENDING), {"switch": "on", "reason": "Corrected"})
    assert seen().off == ""
    assert "sending on: Corrected" in staff.get(listed(SENDING)).content.decode()


def test_a_restored_database_is_shown_as_such_and_looking_writes_nothing(staff: Client) -> None:
    staff.get(listed(SENDING))
    assert not SendingState.objects.exists()
    switched_on()
    SendingState.objects.update(epoch="another/1/1")

    page = staff.get(listed(SENDING)).content.decode()

    assert "restored from a backup" in page
    assert SendingState.objects.get().off_because == ""


def test_a_stop_by_the_sender_says_when_it_ends_and_a_reader_cannot_switch() -> None:
    switched_on()
    switch_off(because="the relay refuses us: 535", worker="w1", for_s=900)
    reader = logged_in("reader", may=("view_sendingstate",))

    page = reader.get(listed(SENDING)).content.decode()

    assert "goes on by itself" in page
    assert "Switch on" not in page
    assert reader.post(listed(SENDING), {"switch": "on", "reason": "x"}).status_code == 403


def test_a_claim_is_shown_with_what_it_still_holds(staff: Client) -> None:
    hold(make_running(leads=3), worker="host:1:abc", size=2)

    row = staff.get(listed("outreach_claim")).context["cl"].result_list[0]

    assert (row.worker, row.size, row.held) == ("host:1:abc", 2, 2)
    assert staff.get(page_of("outreach_claim", row.pk)).status_code == 200
