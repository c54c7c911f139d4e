"""Teams, reps and memberships by form: each change goes through the turnstile."""

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from routing.by_hand import assign_now
from routing.models import Lead, Membership, Rep, Team
from tests.make import make_lead, make_member, make_rep, make_team
from tests.staff import ask, confirm, hands_on, logged_in, nothing, page_of, said

pytestmark = pytest.mark.django_db
LEVEL = {"zone": "UTC", "when_late": "alert", "late_moves": 2}


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def turnstiles_taken(asked: CaptureQueriesContext) -> int:
    return len([q for q in asked if "pg_advisory_xact_lock(turnstile_key" in q["sql"]])


def test_a_new_membership_goes_through_the_turnstile(staff):
    team, rep = make_team(), make_rep()

    with CaptureQueriesContext(connection) as asked:
        hands_on(staff, reverse("admin:routing_membership_add"), {"team": team.pk, "rep": rep.pk, "weight": 3})

    assert Membership.objects.get().weight == 3
    assert turnstiles_taken(asked) == 1


def test_a_changed_weight_goes_through_the_turnstile(staff):
    member = make_member(team=make_team())

    with CaptureQueriesContext(connection) as asked:
        hands_on(staff, page_of("routing_membership", member.pk), {"weight": 7})

    assert Membership.objects.get().weight == 7
    assert turnstiles_taken(asked) == 1


def test_a_membership_saved_unchanged_takes_no_turnstile(staff):
    member = make_member(team=make_team())

    with CaptureQueriesContext(connection) as asked:
        hands_on(staff, page_of("routing_membership", member.pk), {"weight": 1})

    assert turnstiles_taken(asked) == 0


def test_a_cap_set_by_form_counts_what_the_rep_was_given_today(staff):
    team = make_team(reps=1)
    rep = Rep.objects.get()
    assign_now(lead_ids=[make_lead(team=team).pk])
    given = {"name": rep.name, "email": rep.email, "crm_user_id": "", "zone": "Europe/Paris", "day_cap": 1}
    given |= nothing("hours", "time_off")

    hands_on(staff, page_of("routing_rep", rep.pk), given)
    assign_now(lead_ids=[make_lead(team=team).pk])

    assert Lead.objects.waiting().count() == 1
    assert rep.counts.get().count == 1


def test_outside_hours_and_name_of_a_team_are_changed_by_form(staff):
    team = make_team()

    with CaptureQueriesContext(connection) as asked:
        hands_on(staff, page_of("routing_team", team.pk), {"name": "Renamed", "outside_hours": "wait", **LEVEL})

    team.refresh_from_db()
    assert (team.name, team.outside_hours) == ("Renamed", "wait")
    assert turnstiles_taken(asked) == 1


def test_retiring_a_team_asks_and_then_counts(staff):
    team = make_team()

    page = ask(staff, "routing_team", "retire_selected", team.pk)
    answer = confirm(staff, "routing_team", "retire_selected", team.pk)

    assert "cannot be undone" in page.content.decode()
    assert said(answer) == ["Retired 1."]
    assert Team.objects.get().retired_at is not None


def test_a_rep_taken_out_of_turns_gets_nothing_until_let_in_again(staff):
    team = make_team(reps=1)
    member = Membership.objects.get()
    confirm(staff, "routing_membership", "take_out", member.pk)
    assign_now(lead_ids=[make_lead(team=team).pk])
    assert Lead.objects.waiting().count() == 1

    answer = confirm(staff, "routing_membership", "let_take_part", member.pk)

    assert said(answer) == ["Changed 1."]
    assert Membership.objects.get().active


@pytest.mark.django_db(transaction=True)
def test_a_changed_weight_waits_for_the_turnstile_and_says_so_where_it_stays_busy(staff):
    member = make_member(team=make_team())
    holder = connection.copy()
    holder.set_autocommit(False)
    try:
        with holder.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [member.team_id])
        answer = staff.post(page_of("routing_membership", member.pk), {"weight": 9, "_save": ""}, follow=True)
    finally:
        holder.rollback()
        holder.close()

    assert said(answer) == [
        "Leads are being given out in this team right now. Nothing was changed; try again in a moment."
    ]
    assert Membership.objects.get().weight == 1
