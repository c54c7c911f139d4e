"""Thirty leads in one second: every one goes to exactly one rep, and the reps take strict turns."""

import pytest

from routing.members import part_of
from routing.models import Assignment, Lead, Membership
from routing.sweep import sweep_team
from tests.make import make_source, make_team
from tests.races.controls import WRONG_WAYS, turns_the_wrong_way, until_seen
from tests.races.crowd import at_once, faults, take_in, take_in_for
from tests.races.replay import nothing_lost_nothing_twice, replay

pytestmark = pytest.mark.django_db(transaction=True)

SEEN = {
    "naive": lambda seen: seen["spread"] > 1 and seen["wrong_picks"],
    "textbook": lambda seen: seen["spread"] > 1 and seen["wrong_picks"],
    "skip": lambda seen: seen["unassigned"],
    "one statement": lambda seen: seen["spread"] > 1 and seen["wrong_picks"],
}


@pytest.mark.parametrize("way", WRONG_WAYS)
def test_control_the_wrong_ways_to_take_turns_are_seen_to_fail(way):
    def attempt():
        return turns_the_wrong_way(make_team(reps=5), way, clients=30, leads_each=10)

    until_seen(attempt, SEEN[way], f"{way} (30 clients, 5 reps)")


@pytest.mark.parametrize("reps", [2, 5, 20])
def test_thirty_leads_at_once_go_to_the_reps_in_fair_turn(reps):
    team = make_team(reps=reps)
    source = make_source(team=team)
    answers = at_once(30, lambda _: [take_in(source) for _ in range(3)])
    assert not faults(answers)
    sweep_team(team_id=team.pk)
    replayed = replay(team)
    assert replayed.turns == 90 and replayed.worst < 1 and replayed.spread <= 1
    nothing_lost_nothing_twice()


@pytest.mark.parametrize("weights", [(1, 1), (5, 3, 2, 1, 1), (19, *(1,) * 19), (100, 1, 1, 1)])
def test_thirty_leads_at_once_follow_the_weights(weights):
    team = make_team(weights=weights)
    source = make_source(team=team)
    assert not faults(at_once(30, lambda _: [take_in(source) for _ in range(4)]))
    sweep_team(team_id=team.pk)
    replayed = replay(team)
    assert replayed.turns == 120 and replayed.worst < 1
    nothing_lost_nothing_twice()


@pytest.mark.parametrize("weights", [(1,) * 5, (5, 3, 2, 1, 1), (1,) * 20])
def test_two_hundred_leads_at_once_go_to_the_reps_in_fair_turn(weights):
    team = make_team(weights=weights)
    source = make_source(team=team)
    answers = at_once(200, lambda _: take_in(source))
    assert not faults(answers)
    assert Lead.objects.count() == 200, "what was answered is there"
    sweep_team(team_id=team.pk)
    replayed = replay(team)
    assert replayed.turns == 200 and replayed.worst < 1
    nothing_lost_nothing_twice()


def test_an_answer_that_names_a_rep_names_the_one_who_has_the_lead():
    team = make_team(reps=3)
    source = make_source(team=team)
    answers = at_once(30, lambda _: take_in(source))
    named = {answer.lead: answer.rep_id for answer in answers if answer.outcome == "assigned"}
    held = Assignment.objects.filter(lead__uid__in=named).values_list("lead__uid", "membership__rep_id")
    assert named and dict(held) == named
    assert all(answer.outcome in ("assigned", "waiting") for answer in answers)


@pytest.mark.parametrize("weights", [(1,) * 5, (5, 3, 2, 1, 1)])
def test_leads_with_candidates_of_their_own_stay_near_one_lead_from_the_share_due(weights):
    team = make_team(weights=weights)
    members = list(Membership.objects.filter(team=team).order_by("pk"))
    parts = [None, part_of(team=team, memberships=members[:2]), part_of(team=team, memberships=members[1:4])]
    parts.append(part_of(team=team, memberships=members[4:]))

    def work(number):
        return [take_in_for(team, parts[(number + turn) % 4]) for turn in range(5)]

    assert not faults(at_once(30, work))
    sweep_team(team_id=team.pk)
    replayed = replay(team)
    assert replayed.turns == 150 and replayed.worst < 1.5
    for turn in Assignment.objects.select_related("lead__part", "roster"):
        allowed = turn.lead.part.members if turn.lead.part else [member.pk for member in members]
        assert sorted(map(int, turn.roster.candidates)) == sorted(allowed)
    nothing_lost_nothing_twice()


def test_a_preferred_member_takes_its_leads_and_nobody_loses_a_turn_by_it():
    team = make_team(reps=4)
    favourite = Membership.objects.filter(team=team).earliest("pk")

    def work(number):
        return take_in_for(team, None, preferred=favourite if number % 3 == 0 else None)

    assert not faults(at_once(30, work))
    sweep_team(team_id=team.pk)
    replayed = replay(team)
    assert replayed.worst < 1
    assert Assignment.objects.filter(preferred=True, membership=favourite).count() == 10
    others = [n - 10 * (member == favourite.pk) for member, n in replayed.counts.items()]
    assert max(others) - min(others) <= 1
    nothing_lost_nothing_twice()


def test_teams_take_their_turns_beside_each_other():
    sources = [make_source(team=make_team(reps=3)) for _ in range(6)]
    assert not faults(at_once(30, lambda number: [take_in(sources[(number + turn) % 6]) for turn in range(4)]))
    for source in sources:
        sweep_team(team_id=source.team_id)
        replayed = replay(source.team)
        assert replayed.turns == 20 and replayed.spread <= 1
    nothing_lost_nothing_twice()
