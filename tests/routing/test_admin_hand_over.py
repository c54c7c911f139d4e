"""Leads given to somebody by hand, back to the turns, or all of a rep's to the others: with a reason, after asking."""

import pytest
from django.core.cache import cache
from django.test import Client

from routing.by_hand import assign_now, close_now
from routing.models import Assignment, Lead, Membership
from tests.make import make_lead, make_member, make_team
from tests.staff import ask, confirm, logged_in, page_of, said

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def holders() -> list[int]:
    """Who has the leads now, by membership, oldest lead first."""
    return list(Assignment.objects.current().order_by("lead_id").values_list("membership_id", flat=True))


def test_a_lead_is_given_to_a_rep_of_another_team_with_the_reason_in_its_history(staff):
    lead = make_lead(team=make_team(reps=1))
    assign_now(lead_ids=[lead.pk])
    other = make_member(team=make_team())

    page = ask(staff, "routing_lead", "give_to", lead.pk).content.decode()
    answer = confirm(staff, "routing_lead", "give_to", lead.pk, to=other.pk, reason="Knows them")

    assert "Give 1 lead to somebody" in page and str(other) in page
    assert said(answer) == [f"Given to {other}: 1."]
    given = Assignment.objects.current().get()
    assert (given.membership, given.chosen_by, given.note) == (other, "robin", "Knows them")
    assert Assignment.objects.exclude(pk=given.pk).get().ended_by == "robin"
    assert "Knows them" in staff.get(page_of("routing_lead", lead.pk)).content.decode()


def test_without_a_reason_the_page_asks_again_and_nothing_is_changed(staff):
    team = make_team(reps=2)
    lead = make_lead(team=team)
    assign_now(lead_ids=[lead.pk])
    before = holders()

    for action in ("give_to", "give_back"):
        answer = confirm(staff, "routing_lead", action, lead.pk, to=Membership.objects.first().pk)
        assert "This field is required" in answer.content.decode()

    assert holders() == before


def test_a_closed_lead_is_refused_and_the_others_are_given(staff):
    team = make_team(reps=1)
    member = Membership.objects.get()
    closed, waiting = make_lead(team=team), make_lead(team=team)
    close_now(lead_ids=[closed.pk])

    answer = confirm(staff, "routing_lead", "give_to", closed.pk, waiting.pk, to=member.pk, reason="Asked for")

    assert said(answer) == [f"Given to {member}: 1. 1 not: The lead was closed meanwhile. Nothing was changed."]
    assert Lead.objects.get(pk=waiting.pk).status == Lead.Status.ASSIGNED


def test_a_lead_given_back_goes_to_the_next_in_turn_and_the_turn_is_given_back(staff):
    team = make_team(reps=2)
    lead = make_lead(team=team)
    assign_now(lead_ids=[lead.pk])
    (first,) = holders()

    answer = confirm(staff, "routing_lead", "give_back", lead.pk, reason="On the phone all day")

    assert said(answer) == ["Given back 1."]
    assert holders() != [first]
    assert Assignment.objects.exclude(ended_at=None).get().end_reason == "declined"
    assert not Membership.objects.exclude(lag=0).exists(), "as if the declined turn had not been"


def test_a_lead_that_nobody_else_may_take_stays_and_the_page_says_why(staff):
    lead = make_lead(team=make_team(reps=1))
    assign_now(lead_ids=[lead.pk])

    answer = confirm(staff, "routing_lead", "give_back", lead.pk, reason="No time")

    assert said(answer)[0].startswith("Given back 0. 1 not: Nobody else may take this lead")
    assert len(holders()) == 1


def test_the_open_leads_of_a_rep_go_to_the_others_and_those_a_person_gave_stay(staff):
    team = make_team(reps=3)
    leaving = Membership.objects.order_by("pk").first()
    leads = [make_lead(team=team).pk for _ in range(9)]
    assign_now(lead_ids=leads)
    chosen = make_lead(team=team)
    confirm(staff, "routing_lead", "give_to", chosen.pk, to=leaving.pk, reason="Old friends")

    page = ask(staff, "routing_rep", "hand_over", leaving.rep_id).content.decode()
    answer = confirm(staff, "routing_rep", "hand_over", leaving.rep_id, reason="Ill", turns_back="on")

    assert "4 open leads, 1 of them given by a person" in page
    assert said(answer) == ["Handed over 3. 1 lead stayed."]
    assert holders().count(leaving.pk) == 1


def test_who_may_only_look_is_not_offered_any_of_it():
    lead = make_lead(team=make_team(reps=1))
    looker = logged_in("lee", may=("view_lead", "view_rep"))
    assert "give_to" not in looker.get(page_of("routing_lead", lead.pk)).content.decode()
    assert "hand_over" not in looker.get(page_of("routing_rep", Membership.objects.get().rep_id)).content.decode()
    confirm(looker, "routing_lead", "give_to", lead.pk, to=Membership.objects.get().pk, reason="x")
    assert not holders()
