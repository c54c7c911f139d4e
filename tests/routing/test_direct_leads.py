"""Leads given past the turns: on top of a rep's share, or part of it where the team says so."""

import random

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from routing import members
from routing.models import Assignment, Team
from routing.models.team import SCALE
from routing.shares import Place, take
from routing.turns import take_turns
from tests.make import make_lead, make_team

pytestmark = pytest.mark.django_db(transaction=True)


def counting_team(*weights: int) -> Team:
    team = make_team(weights=weights)
    with transaction.atomic():
        members.set_direct_counts(team=team, direct_counts=True)
    return team


def received(team: Team) -> list[int]:
    return [member.assignments.count() for member in team.memberships.order_by("pk")]


def test_direct_leads_are_on_top_of_the_share_unless_the_team_lets_them_count() -> None:
    team = make_team(reps=2)
    owner = team.memberships.order_by("pk")[0]
    for _ in range(4):
        make_lead(team=team, preferred=owner)
    for _ in range(6):
        make_lead(team=team)
    take_turns(team_id=team.pk)
    assert received(team) == [4 + 3, 3]


def test_where_direct_leads_count_the_others_get_as_many_more() -> None:
    team = counting_team(1, 1)
    owner = team.memberships.order_by("pk")[0]
    for _ in range(4):
        make_lead(team=team, preferred=owner)
    for _ in range(6):
        make_lead(team=team)
    take_turns(team_id=team.pk)
    assert received(team) == [5, 5]
    assert {member.lag for member in team.memberships.all()} == {0}
    first = Assignment.objects.order_by("turn")[0]
    assert first.preferred and len(first.roster.candidates) == 2 and first.lag_after == -SCALE // 2


def test_a_counted_direct_lead_still_goes_to_the_preferred_member_however_many_they_had() -> None:
    team = counting_team(1, 1, 1)
    owner = team.memberships.order_by("pk")[1]
    for _ in range(7):
        make_lead(team=team, preferred=owner)
    take_turns(team_id=team.pk)
    assert received(team) == [0, 7, 0]


@given(
    seed=st.integers(0, 10**6),
    weights=st.lists(st.integers(1, 9), min_size=2, max_size=5),
    counts=st.booleans(),
)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_turns_in_sql_and_in_rehearsal_agree_number_for_number(seed: int, weights: list[int], counts: bool) -> None:
    """Random parts and preferences, absences and batches: winner and lags of every turn are the same in both."""
    dice = random.Random(seed)
    team = make_team(weights=tuple(weights))
    with transaction.atomic():
        members.set_direct_counts(team=team, direct_counts=counts)
    everyone = list(team.memberships.order_by("pk"))
    places = {member.pk: Place(member.pk, member.weight) for member in everyone}
    active, turn = set(places), 0
    for _ in range(6):
        if dice.random() < 0.5:
            active = set(dice.sample(sorted(places), dice.randint(1, len(places))))
            with transaction.atomic():
                members.set_active(memberships=team.memberships.filter(pk__in=active), active=True)
                members.set_active(memberships=team.memberships.exclude(pk__in=active), active=False)
        expected = []
        for _ in range(dice.randint(1, 8)):
            allowed = dice.sample(everyone, dice.randint(1, len(everyone))) if dice.random() < 0.4 else []
            preferred = dice.choice(everyone) if dice.random() < 0.4 else None
            with transaction.atomic():
                part = members.part_of(team=team, memberships=allowed) if allowed else None
            make_lead(team=team, part=part, preferred=preferred)
        for lead in team.leads.waiting().order_by("pk"):
            among = set(lead.part.members) if lead.part else set(places)
            candidates = [places[member] for member in sorted(active & among)]
            sole = lead.preferred_id if lead.preferred_id in active & among else None
            if candidates:
                turn += 1
                expected.append((lead.pk, turn, take(candidates=candidates, turn=turn, sole=sole, counts=counts)))
        before = Assignment.objects.filter(team=team).count()
        take_turns(team_id=team.pk, most=1_000)
        made = Assignment.objects.filter(team=team).order_by("turn")[before:]
        got = [(row.lead_id, row.turn, row.membership_id, row.lag_before, row.lag_after) for row in made]
        assert got == [(lead, number, one.winner, one.before, one.after) for lead, number, one in expected]
        assert dict(team.memberships.values_list("pk", "lag")) == {place.id: place.lag for place in places.values()}


@given(
    seed=st.integers(0, 10**6), weights=st.lists(st.integers(1, 9), min_size=2, max_size=6), direct=st.integers(0, 60)
)
@settings(max_examples=200, deadline=None)
def test_counted_direct_leads_are_made_up_for_and_then_all_are_within_a_lead_or_so(
    seed: int, weights: list[int], direct: int
) -> None:
    """With the same candidates throughout, no lag exceeds the direct leads still to be made up for, plus one; and once
    there were turns enough to make up for them every lag is below one lead again."""
    dice = random.Random(seed)
    places = [Place(number, weight) for number, weight in enumerate(weights)]
    total, turn = sum(weights), 0
    for given_out in range(1, direct + 1):
        turn += 1
        take(candidates=places, turn=turn, sole=dice.randrange(len(places)), counts=True)
        for _ in range(dice.randint(0, 2)):
            turn += 1
            take(candidates=places, turn=turn)
        assert sum(place.lag for place in places) == 0
        assert max(abs(place.lag) for place in places) < (given_out + 1) * SCALE
    behind = -min(place.lag for place in places) / SCALE
    enough = int(behind * total / min(weights)) + 2 * len(places) + 1
    for _ in range(enough):
        turn += 1
        take(candidates=places, turn=turn)
    assert max(abs(place.lag) for place in places) < 1.05 * SCALE
