"""A real Chromium, driven: where it is found, and everything it complained about."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def found() -> str:
    """The browser's path: E2E_BROWSER, or in PATH. Where there is none: skip, or fail where one is required."""
    path = os.environ.get("E2E_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if path:
        return path
    reason = f"no browser: set E2E_BROWSER, or put one of {', '.join(NAMES)} into PATH"
    if os.environ.get("CI") or os.environ.get("E2E_REQUIRED"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def started() -> Iterator[Browser]:
    """A browser for as long as the block lasts."""
    path = found()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def complaints_of(page: Page) -> list[str]:
    """A list that fills with the page's errors: of scripts, of the network, of the content security policy."""
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    page.on("console", lambda said: complaints.append(f"{page.url}: {said.text}") if said.type == "error" else None)
    return complaints
