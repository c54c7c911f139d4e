"""Mass updates, held lanes and the org's switch in a real browser: light, dark, and as narrow as a phone."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, Page

from crmsync.models import Operation, OrgState
from crmsync.moves import batches
from crmsync.moves.interventions import hold, stop_org
from tests.browser.chromium import complaints_of
from tests.crmsync.push.test_cancelling import batch_of
from tests.crmsync.rows import put_contacts
from tests.staff import listed, logged_in, page_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PHONE = {"width": 390, "height": 844}


def pages() -> list[str]:
    put_contacts("hot", 4)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE crmsync_outboxmessage SET status = 'dead', settled_at = now(), failure_kind = 'contention',"
            " failure_code = 'UNABLE_TO_LOCK_ROW' WHERE status = 'pending'"
        )
    running = batch_of("one", "two", "three")
    batches.pause(batch_id=running.pk, by="robin", reason="busy hour")
    hot = [{"parent": "Account A-000", "rows": 4048, "calls": 21, "seconds": 39.7}]
    plan = {"rows": 3, "parents": 1, "calls": 1, "workers": 2, "seconds": 0.4, "measured": False, "hottest": hot}
    file = batches.File("contacts.csv", "0" * 64, "", ["Rota_Id__c", "Title"], 3)
    told = {**plan, "notices": ["A notice."]}
    offered = batches.offer(
        file=file, object="Contact", operation=Operation.UPSERT, by="robin", content=b"x", plan=told
    )
    hold(key="Account:hot", until=timezone.now() + timedelta(hours=2), by="robin", reason="month end load")
    stop_org(by="robin", reason="release week-end")
    later = timezone.now() + timedelta(hours=3)
    low = "Limit of the org: 12,004 of 15,000 calls of the day are used."
    refused = "Login refused: INVALID_SESSION_ID Session expired or invalid"
    OrgState.objects.update(
        paused_until=later, paused_reason=refused, mass_paused_until=later, mass_paused_reason=low,
        bulk_paused_until=later, bulk_paused_reason="Limit of the org: ExceededQuota ApiBatchItems Limit exceeded.",
    )  # fmt: skip
    return [
        reverse("admin:index"),
        listed("crmsync_batch"), page_of("crmsync_batch", running.pk), page_of("crmsync_batch", offered.pk),
        f"{listed('crmsync_batch')}push/", listed("crmsync_lockfailure"), f"{listed('crmsync_lockfailure')}retry-all/",
        listed("crmsync_lane"), f"{listed('crmsync_lane')}hold/?key=Account:hot", listed("crmsync_orgstate"),
        listed("crmsync_intervention"),
    ]  # fmt: skip


@pytest.mark.parametrize(("theme", "size"), [("light", None), ("dark", None), ("light", PHONE)])
def test_every_page_opens_without_a_complaint_and_fits(
    browser: Browser, live_server: Any, theme: Any, size: Any
) -> None:
    cache.clear()
    session = logged_in().cookies["sessionid"].value
    addresses = pages()
    with browser.new_context(base_url=live_server.url, color_scheme=theme, viewport=size) as context:
        context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
        page: Page = context.new_page()
        complaints = complaints_of(page)
        for address in addresses:
            answer = page.goto(address)
            assert answer is not None and answer.status == 200, address
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert size is None or wide <= 0, f"{address} is {wide} px too wide"
        assert not complaints
