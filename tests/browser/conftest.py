"""One browser for each file, and a page of somebody logged in that must complain of nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import complaints_of, started
from tests.staff import logged_in

PATIENCE_MS = 20_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")  # the browser's driver runs a loop in this thread
        with started() as browser:
            yield browser


@pytest.fixture
def context(browser: Browser, live_server: Any) -> Iterator[BrowserContext]:
    cache.clear()
    with browser.new_context(base_url=live_server.url, accept_downloads=True) as context:
        context.set_default_timeout(PATIENCE_MS)
        yield context


@pytest.fixture
def page(context: BrowserContext, live_server: Any) -> Iterator[Page]:
    """A page of somebody logged in. At the end it must not have complained, nor have asked another host."""
    session = logged_in().cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    page = context.new_page()
    complaints, foreign = complaints_of(page), []
    ours = (live_server.url, "data:", "blob:")
    page.on("request", lambda asked: None if asked.url.startswith(ours) else foreign.append(asked.url))
    yield page
    assert not complaints and not foreign
