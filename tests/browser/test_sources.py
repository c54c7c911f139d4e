"""A source in a real browser: a form whose fields nobody knew, mapped with the preview in view, and replayed."""

import re

import pytest
from playwright.sync_api import Page, expect

from routing.models import InboundSource, Lead
from tests.make import make_team
from tests.routing.providers import make_source_of, post
from tests.staff import listed

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_source_is_added_for_a_provider_that_makes_the_secret(page: Page):
    make_team(name="Sales", reps=1)
    page.goto(listed("routing_inboundsource"))
    page.get_by_role("link", name="Add inbound source").click()
    page.get_by_label("Name:", exact=True).fill("HubSpot")
    page.get_by_label("Kind").select_option("HubSpot")
    page.get_by_label("Team").select_option("Sales")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(page.get_by_text("Its sender makes the secret.")).to_be_visible()
    page.get_by_role("textbox", name="Secret").fill("their-client-secret")
    page.get_by_role("button", name="Save and continue editing").click()

    expect(page.get_by_role("region", name="Connect the sender")).to_contain_text("contact.creation")
    assert InboundSource.objects.get().secret == "their-client-secret"


def test_a_refused_form_is_mapped_looked_at_and_replayed_into_a_lead(page: Page):
    source = make_source_of("webflow", name="Kontakt", team=make_team(reps=1))
    data = {"Wohin antworten?": "pat@acme.example", "First Name": "Pat", "Budget": "10k"}
    post(source, {"triggerType": "form_submission", "payload": {"id": "s1", "name": "Kontakt", "data": data}})
    page.goto("/admin/")
    page.locator("#n-stuck").click()
    expect(page.get_by_text("email is missing")).to_be_visible()
    page.goto(listed("routing_inboundsource"))
    page.get_by_role("link", name="Kontakt").click()
    preview = page.get_by_role("region", name="What its last event makes")
    expect(preview).to_contain_text("No lead: email is missing")
    page.get_by_label("E-mail").fill("Wohin antworten?")
    page.get_by_role("button", name="Save and continue editing").click()
    expect(preview.get_by_role("row", name=re.compile("Wohin"))).to_contain_text("email")
    expect(preview).not_to_contain_text("No lead")
    page.get_by_role("link", name="The event").click()
    page.get_by_role("button", name="Replay…").click()
    page.get_by_role("button", name="Replay 1").click()

    expect(page.get_by_text("Landed 1.")).to_be_visible()
    assert Lead.objects.get().email == "pat@acme.example"
