"""The admin in a real browser: it logs in, keeps its numbers live, explains a lead, retries, and breaks no policy."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from playwright.sync_api import Browser, BrowserContext, Page, expect

from crmsync import outbox
from crmsync.models import DeadLetter, FailureKind, LockFailure, OutboxMessage
from routing.by_hand import assign_now
from routing.models import Lead, Membership, Rep, Team
from tests.browser.chromium import complaints_of
from tests.make import make_lead, make_source, make_team
from tests.staff import listed, logged_in, page_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LISTS = (
    *(f"routing_{name}" for name in ("lead", "assignment", "team", "rep", "membership", "shift", "holiday")),
    *(f"routing_{name}" for name in ("credit", "servicebreach", "handover", "run", "rulebook", "account")),
    *(f"routing_{name}" for name in ("inboundsource", "inboundevent", "delivery")),
    *(
        f"crmsync_{name}"
        for name in ("lockfailure", "deadletter", "outboxmessage", "bulkjob", "lane", "claim", "attempt")
    ),
    *(f"outreach_{name}" for name in ("campaign", "message", "indoubt", "suppression", "claim", "sendingstate")),
    "outreach_noticemail",
    *(f"crmsync_{name}" for name in ("batch", "intervention")),
    *("crmsync_orgstate", "auth_user", "auth_group", "django_q_schedule", "django_q_failure"),
)


def make_dead(name: str, kind: FailureKind = FailureKind.CONTENTION) -> OutboxMessage:
    parents = [{"relation": "account", "object": "Account", "external_id": "acme"}]
    with transaction.atomic():
        pk = outbox.enqueue(object="Contact", external_id=name, fields={"last_name": name}, parents=parents)
    failed = {"status": "dead", "settled_at": timezone.now(), "failure_kind": kind, "failure_code": "CODE"}
    OutboxMessage.objects.filter(pk=pk).update(**failed)
    return OutboxMessage.objects.get(pk=pk)


def test_somebody_logs_in_and_sees_the_numbers_move(context: BrowserContext):
    User.objects.create_superuser("ops", password="a long one, typed")
    page = context.new_page()
    complaints = complaints_of(page)
    page.goto("/admin/")
    page.get_by_label("Username").fill("ops")
    page.get_by_label("Password").fill("a long one, typed")
    page.get_by_role("button", name="Log in").click()
    waiting = page.locator("#n-waiting b")
    expect(waiting).to_have_text("0")

    lead = make_lead(team=make_team(name="Europe"))

    expect(waiting).to_have_text("1")
    expect(page.get_by_role("heading", name="Europe")).to_be_visible()
    assert lead.status == Lead.Status.WAITING
    assert not complaints


def test_numbers_stand_still_while_live_is_off_and_that_is_remembered(page: Page):
    page.goto("/admin/")
    page.get_by_label("Live").uncheck()

    page.reload()

    expect(page.get_by_label("Live")).not_to_be_checked()
    page.get_by_label("Live").check()
    page.reload()
    expect(page.get_by_label("Live")).to_be_checked()


def test_the_numbers_are_there_without_scripts(browser: Browser, live_server: Any):
    make_lead(team=make_team())
    session = logged_in().cookies["sessionid"].value
    with browser.new_context(java_script_enabled=False, base_url=live_server.url) as context:
        context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
        page = context.new_page()
        page.goto("/admin/")

        expect(page.locator("#n-waiting b")).to_have_text("1")
        expect(page.get_by_label("Live")).to_be_hidden()


def test_a_lead_says_why_this_rep(page: Page):
    team = make_team(weights=(2, 1))
    rep = Membership.objects.get(team=team, weight=2).rep
    lead = make_lead(team=team)
    assign_now(lead_ids=[lead.pk])
    page.goto(listed("routing_lead"))

    page.get_by_role("link", name=re.compile(re.escape(lead.email))).click()

    why = page.get_by_role("region", name="Why this rep")
    expect(why).to_contain_text(f"Of 2 candidates it was {rep.name}'s turn")
    expect(why.get_by_role("row", name=re.compile(rep.name))).to_contain_text("took it")
    expect(page.get_by_role("region", name="What the CRM got")).to_contain_text("Pending")


def test_retry_selected_from_the_list_to_the_message(page: Page):
    make_dead("locked")
    make_dead("refused", FailureKind.PERMANENT)
    page.goto("/admin/")
    page.get_by_role("navigation", name="Menu").get_by_role("link", name="Lock failures 1").click()
    expect(page.get_by_text("refused")).to_have_count(0)
    page.get_by_role("checkbox", name="Select this object for an action").check()
    page.get_by_label("Action:").select_option("Retry selected")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("heading", name="Retry 1 lock failure")).to_be_visible()
    assert LockFailure.objects.count() == 1, "asking changes nothing"

    page.get_by_label("Reason").fill("the batch is over")
    page.get_by_role("button", name="Retry 1").click()

    expect(page.get_by_text("Retried 1.")).to_be_visible()
    expect(page.get_by_text("No lock failures.")).to_be_visible()
    assert OutboxMessage.objects.pending().get().reason == "the batch is over"


def test_a_button_on_a_page_asks_and_comes_back_to_the_page(page: Page):
    lead = make_lead(team=make_team(reps=1))
    page.goto(page_of("routing_lead", lead.pk))

    page.get_by_role("button", name="Assign now").click()
    page.get_by_role("button", name="Assign 1").click()

    expect(page.get_by_text("Assigned 1.")).to_be_visible()
    expect(page.get_by_role("region", name="Why this rep")).to_be_visible()


def test_no_page_breaks_the_content_security_policy(page: Page):
    team = make_team(reps=2)
    source = make_source(team=team)
    lead = make_lead(team=team)
    assign_now(lead_ids=[lead.pk])
    for kind in (FailureKind.CONTENTION, FailureKind.PERMANENT):
        make_dead(kind.value, kind)
    rows = {
        "routing_lead": lead,
        "routing_team": Team.objects.get(),
        "routing_rep": Rep.objects.all()[0],
        "routing_membership": Membership.objects.all()[0],
        "routing_inboundsource": source,
        "crmsync_lockfailure": LockFailure.objects.get(),
        "crmsync_deadletter": DeadLetter.objects.get(),
    }
    places = [
        "/admin/",
        *map(listed, LISTS),
        *(page_of(model, row.pk) for model, row in rows.items()),
        *(f"/admin/routing/{model}/add/" for model in ("team", "rep", "membership", "shift", "inboundsource")),
        *(f"/admin/routing/{model}/add/" for model in ("rulebook", "account")),
        "/admin/fairness/",
        "/admin/mailbox/",
        "/admin/contention/",
    ]

    for place in places:
        answer = page.goto(place)
        assert answer is not None
        assert (place, answer.status) == (place, 200)
        assert "'unsafe" not in answer.headers["content-security-policy"]
    page.get_by_role("button", name=re.compile("Toggle theme")).click()
