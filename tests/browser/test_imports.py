"""A file of leads from the upload to its verdicts in a real browser, which has no complaint."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from routing import imports
from routing.models import Import, Lead
from tests.make import make_source, make_team
from tests.routing.files_of_leads import CASES
from tests.staff import listed

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _files_here(settings: Any, tmp_path: Path) -> None:
    settings.IMPORT_DIR = str(tmp_path)


def shot(page: Page, name: str) -> None:
    """A picture of the page, light, dark and at a phone's width, where SCREENSHOTS names a folder for them."""
    if not (folder := os.environ.get("SCREENSHOTS")):
        return
    for look, scheme, width in (("light", "light", 1_200), ("dark", "dark", 1_200), ("phone", "light", 390)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        page.screenshot(path=f"{folder}/{name}-{look}.png", full_page=True)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1_200, "height": 900})


def test_a_file_is_uploaded_understood_rehearsed_imported_and_undone(page: Page):
    source = make_source(team=make_team(reps=3), name="Webinar")
    page.goto(listed("routing_import"))
    page.get_by_role("link", name="Add import").click()
    shot(page, "upload")
    page.get_by_label("CSV file").set_input_files(CASES / "webinar_registrations_1000.csv")
    page.get_by_label("Source").select_option(source.name)
    page.get_by_role("button", name="Upload and look").click()
    expect(page.get_by_text("The header is on line 6")).to_be_visible()
    expect(page.get_by_label("Organization")).to_have_value("company")
    page.get_by_label("Industry").select_option("")
    shot(page, "columns")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("region", name="Dry run")).to_contain_text("All 1000 rows")
    shot(page, "rehearsed")
    assert not Lead.objects.exists()

    page.get_by_role("button", name="Import", exact=True).click()

    expect(page.get_by_text("Started.")).to_be_visible()
    shot(page, "running")
    imports.run(import_id=Import.objects.get().pk, budget_s=60)
    expect(page.get_by_text("1000 of 1000 rows")).to_be_visible()  # the page looks again by itself
    shot(page, "finished")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the verdicts").click()
    assert Path(download.value.path()).read_text("utf-8-sig").count(",created,") == 1_000
    assert "industry" not in Lead.objects.latest("pk").fields
    page.get_by_role("button", name="Undo…").click()
    page.get_by_role("button", name="Undo 1").click()
    expect(page.get_by_text("closed 1,000 leads").first).to_be_visible()
    shot(page, "undone")
    page.goto(listed("routing_import"))
    shot(page, "list")
