"""The fairness page adds up what the turns of a team came to, for those who may see its members."""

from datetime import date, timedelta

import pytest
from django.core.cache import cache
from django.urls import reverse

from routing.models import Assignment, Membership
from tests.make import make_lead, make_team
from tests.routing.rows import give
from tests.staff import confirm, logged_in

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


def test_due_received_credits_and_what_was_passed_over_stand_in_one_row():
    staff, team = logged_in(), make_team(name="Inbound", weights=(1, 3))
    give(team, 8)
    one = Membership.objects.order_by("pk")[0]
    confirm(staff, "routing_membership", "credit", one.pk, leads="2", reason="A week off")
    chosen = make_lead(team=team)
    confirm(staff, "routing_lead", "give_to", chosen.pk, to=one.pk, reason="Asked for")

    page = staff.get(reverse("admin:fairness"))

    shares = {share.member: share for share, _ in page.context["rows"]}
    found = shares[one.pk]
    assert (found.due, found.credits, found.received, found.direct) == (3.0, 2.0, 3, 1)
    assert "9 turns" in page.content.decode() and "1 by hand" in page.content.decode()
    assert page.content.decode().count('aria-current="page"') == 1


def test_a_period_without_turns_is_empty_and_one_that_ends_before_it_begins_is_refused():
    staff, team = logged_in(), make_team(reps=1)
    give(team, 1)
    ago = date.today() - timedelta(days=40)
    address = reverse("admin:fairness")
    assert "0 turns" in staff.get(address, {"team": team.pk, "first": ago, "last": ago}).content.decode()
    wrong = staff.get(address, {"team": team.pk, "first": date.today(), "last": ago}).content.decode()
    assert "The last day is before the first" in wrong
    assert staff.get(address, {"team": "x", "first": "y"}).status_code == 200


@pytest.mark.parametrize(("zone", "turns"), [("Pacific/Auckland", 0), ("America/Los_Angeles", 1), ("UTC", 1)])
def test_a_day_is_a_day_on_the_teams_clock(zone, turns):
    staff, team = logged_in(), make_team(reps=1)
    team.zone = zone
    team.save(update_fields=["zone"])
    give(team, 1)
    Assignment.objects.update(assigned_at="2026-10-10T20:30:00Z")  # in Auckland it is the eleventh already
    page = staff.get(reverse("admin:fairness"), {"team": team.pk, "first": "2026-10-10", "last": "2026-10-10"})
    assert page.context["report"].turns == turns
    assert f"days in {zone}" in page.content.decode()


def test_who_may_not_see_members_sees_no_fairness():
    assert logged_in(may=("view_lead",)).get(reverse("admin:fairness")).status_code == 403


def test_without_a_team_the_page_says_what_to_do_first():
    assert "Add a team" in logged_in().get(reverse("admin:fairness")).content.decode()
