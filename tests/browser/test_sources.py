"""A source in a real browser: a form whose fields nobody knew, mapped with the preview in view, and replayed."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from playwright.sync_api import Browser, Page, expect

from routing.models import InboundSource, Lead
from tests.browser.chromium import complaints_of, started
from tests.make import make_team
from tests.routing.providers import make_source_of, post
from tests.staff import listed, logged_in

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")  # the browser's driver runs a loop in this thread
        with started() as browser:
            yield browser


@pytest.fixture
def page(browser: Browser, live_server: Any) -> Iterator[Page]:
    """A page of somebody logged in. At the end it must not have complained about anything."""
    cache.clear()
    session = logged_in().cookies["sessionid"].value
    with browser.new_context(base_url=live_server.url) as context:
        context.set_default_timeout(10_000)
        context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
        page = context.new_page()
        complaints = complaints_of(page)
        yield page
        assert not complaints


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
