"""Rules, availability, a rehearsal, fairness and late leads in a real browser, which has no complaint.

SCREENSHOTS=FOLDER keeps pictures of the pages, light and dark and at a phone's width.
"""

import os
import re
from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from outreach.models import NoticeMail
from routing.models import Assignment, Lead, Membership, Rep, RuleBook, Shift
from routing.service_levels import keep
from tests.make import make_source, make_team, send
from tests.routing.rows import give
from tests.routing.test_service_levels import given, level
from tests.staff import listed, page_of

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def fits(page: Page, name: str) -> None:
    """At a phone's width nothing sticks out of the page; with pictures of it, where they are wanted."""
    folder = os.environ.get("SCREENSHOTS")
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        if folder:
            page.screenshot(path=Path(folder) / f"{name}-{scheme}-{width}.png", full_page=True)
    wide = page.evaluate("document.scrollingElement.scrollWidth")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    assert wide <= 390, f"{name} is {wide} wide on a phone"


def test_rules_are_drafted_tried_rehearsed_and_published(page: Page) -> None:
    web, big = make_team(name="Web", reps=2), make_team(name="Enterprise", reps=2)
    source = make_source(team=web)
    for number in range(6):
        send(source=source, size=number * 200)
    page.goto(reverse("admin:routing_rulebook_add"))
    page.locator("[name='note']").fill("Large companies to their own team")
    page.locator("[name='_save']").first.click()
    page.goto(reverse("admin:routing_rule_add"))
    page.locator("[name='name']").fill("Large companies")
    page.locator("[name='team']").select_option(label="Enterprise")
    page.locator("[name='conditions-0-field']").fill("fields.size")
    page.locator("[name='conditions-0-operator']").select_option("at_least")
    page.locator("[name='conditions-0-value']").fill("600")
    fits(page, "rule")
    page.locator("[name='_save']").first.click()
    draft = RuleBook.objects.get(status="draft")
    page.goto(page_of("routing_rulebook", draft.pk))
    expect(page.get_by_role("link", name="Large companies")).to_be_visible()
    fits(page, "rules")

    page.goto(reverse("admin:routing_rulebook_rehearse", args=[draft.pk]))
    expect(page.get_by_text("3 decided differently")).to_be_visible()
    fits(page, "rehearsal")
    page.goto(reverse("admin:routing_rulebook_try", args=[draft.pk]))
    expect(page.get_by_label("As JSON")).to_have_value("")
    page.get_by_label("E-mail").fill("pat@acme.example")
    page.get_by_label("As JSON").fill('{"size": 700}')
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_role("region", name="Decision")).to_contain_text("Large companies")
    fits(page, "try")
    page.goto(page_of("routing_rulebook", draft.pk))
    page.get_by_role("button", name=re.compile("Publish")).first.click()
    fits(page, "publish")
    page.get_by_role("button", name=re.compile("^Publish")).click()
    assert RuleBook.objects.get(status="published").pk == draft.pk
    assert Lead.objects.filter(team=big).count() == 0, "nothing was written"


def test_hours_entered_on_a_reps_page_are_the_shifts_it_shows(page: Page) -> None:
    team = make_team(reps=1, outside_hours="wait")
    rep = Rep.objects.get(memberships__team=team)
    page.goto(page_of("routing_rep", rep.pk))
    page.locator("#id_zone").fill("Europe/Paris")
    page.get_by_text(re.compile("Add another.*working hours", re.I)).click()
    page.locator("[name='hours-0-weekday']").select_option(label="Monday")
    page.locator("[name='hours-0-start']").fill("08:30")
    page.locator("[name='hours-0-end']").fill("12:00")
    page.get_by_role("button", name=re.compile("Save and continue")).first.click()
    expect(page.get_by_role("region", name="Teams and shifts")).to_contain_text("08:30 to 12:00")
    assert Shift.objects.filter(rep=rep).exists()
    fits(page, "availability")


def test_fairness_shows_due_and_received_of_a_teams_members(page: Page) -> None:
    team = make_team(name="Inbound", weights=(2, 1, 1))
    give(team, 16)
    page.goto("/admin/fairness/")
    rep = Membership.objects.get(team=team, weight=2).rep
    expect(page.get_by_role("row", name=re.compile(re.escape(rep.name)))).to_contain_text("8.00")
    expect(page.get_by_text("days in UTC")).to_be_visible()
    fits(page, "fairness")


def test_a_late_lead_is_found_from_home_and_marked_as_worked(page: Page) -> None:
    team = level(make_team(name="Inbound", reps=2), when_late="alert")
    (turn,) = given(team)
    keep()
    NoticeMail.objects.create(rep=turn.membership.rep, worker="w")
    page.goto("/admin/")
    fits(page, "home")
    page.locator("#n-late").click()
    expect(page.get_by_role("heading", name="Late leads")).to_be_visible()
    fits(page, "late")
    page.goto(page_of("routing_lead", turn.lead_id))
    page.get_by_role("button", name="Mark as worked").click()
    page.get_by_role("button", name="Mark 1").click()
    expect(page.get_by_text("Marked as worked 1.")).to_be_visible()
    fits(page, "lead")
    page.goto(page_of("routing_team", team.pk))
    fits(page, "team")
    page.goto(listed("outreach_noticemail"))
    fits(page, "notices")
    assert Assignment.objects.current().count() == 1
