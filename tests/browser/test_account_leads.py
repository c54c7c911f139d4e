"""The choice what leads of accounts become, by somebody who looks for it where fields are mapped."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from crmsync.models import AccountLeads
from tests.crmsync.conftest import org, org_process  # noqa: F401 - fixtures
from tests.staff import listed

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_somebody_has_leads_of_accounts_written_as_contacts(page: Page, org: Any) -> None:  # noqa: F811
    page.goto(listed("crmsync_fieldmapping"))
    section = page.get_by_role("region", name="Leads of known accounts")
    expect(section).to_contain_text("leads, like all others")
    section.get_by_role("link", name="Change").click()
    page.get_by_label("Contacts under their account").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(section).to_contain_text("contacts under their account")
    assert AccountLeads.become_contacts()
    section.get_by_role("link", name="History").click()
    expect(page.get_by_role("table")).to_contain_text("robin")
