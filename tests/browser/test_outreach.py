"""A campaign from the first word to the launch in a real browser, which has no complaint; then a mail in doubt."""

import re
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from outreach.models import Campaign, Enrolment, Message, SendAttempt
from outreach.moves.settling import settle
from routing.models import Team
from tests.outreach.make import SILENCE, make_begun, make_leads
from tests.staff import listed

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_campaign_is_written_looked_at_and_launched(page: Page):
    make_leads(3)
    page.goto(listed("outreach_campaign"))
    page.get_by_role("link", name="Add campaign").click()
    page.get_by_label("Name:", exact=True).fill("Spring")
    page.get_by_label("From address").fill("pat@rota.example")
    page.locator("#id_steps-0-order").fill("1")
    page.locator("#id_steps-0-subject").fill("News")
    page.locator("#id_steps-0-body").fill("Hello {{ lead.first_name }}")
    page.get_by_role("button", name="Save and continue editing").click()
    page.get_by_role("link", name="Preview with a lead").click()
    expect(page.get_by_role("region", name="Mail 1")).to_contain_text("Hello Ann")
    page.get_by_role("link", name="Spring").click()
    page.get_by_role("link", name="Launch…").click()
    page.get_by_label("Team").select_option(Team.objects.get().name)
    page.get_by_role("button", name="Count them…").click()
    expect(page.get_by_text("3 of 3 leads will be enrolled")).to_be_visible()
    assert not Enrolment.objects.exists(), "asking changes nothing"

    page.get_by_role("button", name="Launch to 3").click()

    expect(page.get_by_text("Launched: enrolled 3 leads.")).to_be_visible()
    expect(page.get_by_role("region", name="Progress").get_by_role("row", name="Together")).to_contain_text("3")
    assert Campaign.objects.get().status == "running"


def test_a_mail_in_doubt_is_found_from_home_and_decided(page: Page):
    _, attempt = make_begun()
    settle(attempt_id=attempt.pk, outcome=SILENCE, worker="w1")
    SendAttempt.objects.update(begun_at=attempt.begun_at - timedelta(hours=3))
    page.goto("/admin/")
    page.locator("#n-in-doubt").click()
    page.get_by_role("link", name=re.compile("@acme.example")).first.click()
    expect(page.get_by_role("region", name="Send attempts")).to_contain_text("no reply in time")
    page.get_by_role("button", name="It went…").click()
    page.get_by_role("button", name="It went: 1").click()

    expect(page.get_by_text("Counted as sent: 1.")).to_be_visible()
    assert Message.objects.get().status == "sent"
    page.goto(listed("outreach_sendingstate"))
    page.get_by_label("Why").fill("Wrong price")
    page.get_by_role("button", name="Switch off").click()
    expect(page.get_by_text("Wrong price (robin)", exact=False).first).to_be_visible()
