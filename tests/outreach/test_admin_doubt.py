"""Mails in doubt are shown with what is known, and decided by a person; a mail's page tells its whole story."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client

from outreach.models import Message, SendAttempt
from outreach.moves.doubt import unlocks_at
from outreach.moves.settling import settle
from tests.outreach.make import SILENCE, make_begun, make_running
from tests.staff import ask, confirm, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db(transaction=True)
DOUBT = "outreach_indoubt"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def make_doubt(*, old: bool = True) -> SendAttempt:
    """A try of which nobody knows; an old one may be sent again."""
    _, attempt = make_begun(steps=2)
    settle(attempt_id=attempt.pk, outcome=SILENCE, worker="w1")
    if old:
        SendAttempt.objects.filter(pk=attempt.pk).update(begun_at=attempt.begun_at - timedelta(hours=3))
    return SendAttempt.objects.get(pk=attempt.pk)


def test_the_pile_shows_what_is_known_and_from_when_on_it_can_be_sent_again(staff: Client) -> None:
    young, old = make_doubt(old=False), make_doubt()
    assert young.begun_at < unlocks_at(young.begun_at)

    page = staff.get(listed(DOUBT)).content.decode()

    assert page.count("no reply in time") == 2
    assert page.count("&lt;m@rota.example&gt;") == 2
    assert "from " in page
    assert ">now<" in page
    assert old.message.enrolment.address in page


def test_it_went_counts_as_sent_and_the_sequence_goes_on(staff: Client) -> None:
    attempts = [make_doubt(), make_doubt(old=False)]
    pks = [attempt.message_id for attempt in attempts]
    assert "<strong>2</strong> of 2" in ask(staff, DOUBT, "it_went", *pks).content.decode()

    assert said(confirm(staff, DOUBT, "it_went", *pks, reason="In the relay's log")) == ["Counted as sent: 2."]

    assert Message.objects.filter(status="sent").count() == Message.objects.filter(step__order=2).count() == 2
    assert set(SendAttempt.objects.values_list("resolved_by", "resolve_reason")) == {("robin", "In the relay's log")}
    assert said(confirm(staff, DOUBT, "it_went", *pks)) == ["Counted as sent: 0. Skipped 2 not in doubt any more."]


def test_send_again_wants_a_reason_and_leaves_what_may_still_be_on_its_way(staff: Client) -> None:
    old, young = make_doubt(), make_doubt(old=False)
    pks = [old.message_id, young.message_id]
    page = ask(staff, DOUBT, "it_did_not_go", *pks).content.decode()
    assert "1 is locked until" in page
    assert "<strong>1</strong> of 2" in page

    refused = confirm(staff, DOUBT, "it_did_not_go", *pks)
    assert "Say why" in refused.content.decode()
    assert Message.objects.filter(status="in_doubt").count() == 2

    done = confirm(staff, DOUBT, "it_did_not_go", *pks, reason="Bounced at the relay")
    assert said(done) == ["To be sent again: 1. Skipped 1 that may still be on the way."]
    assert Message.objects.get(pk=old.message_id).status == "due"
    assert Message.objects.get(pk=young.message_id).status == "in_doubt"


def test_who_may_only_look_decides_nothing() -> None:
    attempt, reader = make_doubt(), logged_in("reader", may=("view_indoubt", "change_message", "view_message"))

    assert "It went" not in reader.get(page_of(DOUBT, attempt.message_id)).content.decode()
    confirm(reader, DOUBT, "it_did_not_go", attempt.message_id, reason="because")
    assert Message.objects.get().status == "in_doubt"


def test_a_mails_page_tells_its_tries_and_events_and_can_be_changed_by_nobody(staff: Client) -> None:
    attempt = make_doubt()
    path = page_of("outreach_message", attempt.message_id)

    page = staff.get(path).content.decode()

    assert "Begun: the intent is committed" in page
    assert "no reply in time" in page
    assert staff.post(path, {"status": "due"}).status_code == 403
    assert staff.post(path.replace("change", "delete"), {"post": "yes"}).status_code == 403


def test_a_lead_is_found_by_address_and_taken_out_of_the_sequence(staff: Client) -> None:
    campaign = make_running(leads=2)
    mail = campaign.messages.order_by("pk")[0]
    found = staff.get(listed("outreach_message"), {"q": mail.enrolment.address.upper()})
    assert [row.pk for row in found.context["cl"].result_list] == [mail.pk]

    assert said(confirm(staff, "outreach_message", "stop_sequences", mail.pk)) == ["Took out 1."]
    assert sorted(campaign.messages.values_list("status", flat=True)) == ["cancelled", "due"]
