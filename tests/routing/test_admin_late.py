"""Late leads in the admin: a team's level, the list, the number at home, and marking a lead as worked."""

from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from config.home import numbers
from routing.models import Assignment, Lead, ServiceBreach, Team
from routing.service_levels import keep
from tests.make import make_team
from tests.routing.test_service_levels import given, level
from tests.staff import ask, confirm, hands_on, listed, logged_in, nothing, page_of, said

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def late(when_late: str = "alert") -> Assignment:
    (turn,) = given(level(make_team(reps=2), when_late=when_late))
    keep()
    return turn


def team_form(**more: object) -> dict[str, object]:
    form = {
        "zone": "UTC",
        "outside_hours": "wait",
        "notices": "on",
        "when_late": "alert",
        "late_moves": 2,
        "service_minutes": "",
    }
    return {**form, **nothing(), **more}


def test_a_level_is_set_with_the_team_and_taken_off_again(staff: Client) -> None:
    hands_on(staff, reverse("admin:routing_team_add"), team_form(name="Sales", service_minutes=45))
    team = Team.objects.get()
    assert team.service_minutes == 45 and team.service_since is not None
    given_then = team_form(name="Sales", service_minutes=30, when_late="reassign", late_moves=1)
    hands_on(staff, page_of("routing_team", team.pk), given_then)
    team.refresh_from_db()
    assert (team.service_minutes, team.when_late, team.late_moves) == (30, "reassign", 1)
    hands_on(staff, page_of("routing_team", team.pk), team_form(name="Sales"))
    team.refresh_from_db()
    assert team.service_minutes is None and team.service_since is None


def test_notices_are_switched_off_on_the_teams_page(staff: Client) -> None:
    team = make_team(name="Sales")
    form = team_form(name="Sales")
    del form["notices"]
    hands_on(staff, page_of("routing_team", team.pk), form)
    team.refresh_from_db()
    assert not team.notices


@pytest.mark.parametrize("minutes", [0, 10_081])
def test_minutes_that_make_no_sense_are_refused(staff: Client, minutes: int) -> None:
    team = make_team(name="Sales")
    answer = staff.post(page_of("routing_team", team.pk), team_form(name="Sales", service_minutes=minutes))
    assert "Ensure this value is" in answer.content.decode()


def test_a_late_lead_is_listed_and_counted_until_it_is_worked(staff: Client) -> None:
    turn = late()
    page = staff.get(listed("routing_servicebreach")).content.decode()
    assert str(turn.lead) in page and turn.membership.rep.name in page and "30 min" in page
    assert numbers().late_leads == "1"
    assert "not worked in time" in staff.get(reverse("admin:index")).content.decode()

    question = ask(staff, "routing_lead", "mark_worked", turn.lead_id).content.decode()
    assert "Mark 1 lead as worked" in question
    answer = confirm(staff, "routing_lead", "mark_worked", turn.lead_id)
    assert said(answer) == ["Marked as worked 1."]
    assert Lead.objects.get().worked_by == "robin"
    assert numbers().late_leads == "0"
    cache.clear()
    assert turn.membership.rep.name not in staff.get(listed("routing_servicebreach")).content.decode()
    story = staff.get(page_of("routing_lead", turn.lead_id)).content.decode()
    assert "by robin" in story and "not worked within 30 min" in story


def test_a_lead_that_was_moved_says_so_on_its_page(staff: Client) -> None:
    turn = late("reassign")
    story = staff.get(page_of("routing_lead", turn.lead_id)).content.decode()
    assert "not worked in time by service level (not worked within 30 working minutes)" in story
    gone = staff.get(page_of("routing_servicebreach", ServiceBreach.objects.get().pk))
    assert gone.url == page_of("routing_lead", turn.lead_id)  # type: ignore[attr-defined]


def test_marking_twice_says_that_it_was_done(staff: Client) -> None:
    turn = late()
    confirm(staff, "routing_lead", "mark_worked", turn.lead_id)
    assert said(confirm(staff, "routing_lead", "mark_worked", turn.lead_id)) == [
        "Marked as worked 0. Skipped 1 worked already, or closed."
    ]


def test_who_may_only_look_marks_nothing(staff: Client) -> None:
    turn = late()
    answer: Any = ask(logged_in("sam", may=("view_lead",)), "routing_lead", "mark_worked", turn.lead_id)
    assert answer.status_code in (302, 200) and Lead.objects.get().first_worked_at is None


def test_without_any_level_home_shows_no_such_number() -> None:
    assert numbers().late_leads == ""
