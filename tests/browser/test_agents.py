"""An agent is made in a real browser, and the API's own page opens there, with nothing from other hosts."""

import re

import pytest
from playwright.sync_api import Page, expect

from outreach.models import Agent
from outreach.moves.agents import digest_of
from tests.staff import listed

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_an_agent_is_made_and_its_token_read_once(page: Page):
    page.goto(listed("outreach_agent"))
    page.get_by_role("link", name="Add agent").click()
    page.get_by_label("Name:", exact=True).fill("caller 1")
    page.get_by_label("May work on leads").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("only time the token is shown")).to_be_visible()
    token = page.get_by_label("Token").inner_text()
    assert digest_of(token) == Agent.objects.get().digest
    page.get_by_role("link", name="I have copied it").click()
    expect(page.get_by_role("link", name="caller 1")).to_be_visible()
    assert token not in page.content()


def test_the_apis_page_shows_every_address_from_this_host_alone(page: Page):
    page.goto("/api/docs")
    expect(page.get_by_text("Claim due mails")).to_be_visible()
    expect(page.get_by_text("Pass the gate for one lead")).to_be_visible()
    page.get_by_text("Claim leads for a job").click()
    expect(page.get_by_text(re.compile("Fresh for each thing you want done"))).to_be_visible()
