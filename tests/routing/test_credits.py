"""Credits are a ledger: lags add up to them, and turns and credits replayed in order give today's lags."""

import random
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from routing import members, shares
from routing.credits import give_back, give_credit
from routing.errors import NoCredit
from routing.models import Assignment, Credit, Membership, Team
from routing.models.team import ROUNDING, SCALE
from routing.shares import moved
from routing.turns import take_turns
from tests.make import make_lead, make_team


def credit(membership: Membership, leads: str, reason: str = "agreed", by: str = "ops") -> Credit:
    with transaction.atomic():
        return give_credit(membership=membership, leads=Decimal(leads), reason=reason, by=by)


def replayed(team: Team) -> dict[int, int]:
    """The lags that the team's turns and credits give when done again, one after the other."""
    steps: list[tuple[int, int, dict[int, int]]] = []
    for assignment in Assignment.objects.filter(team=team).select_related("roster"):
        weights = {int(member): weight for member, weight in assignment.roster.candidates.items()}
        steps.append((assignment.turn, 0, moved(weights=weights, winner=assignment.membership_id)))
    for row in Credit.objects.filter(membership__team=team):
        steps.append((row.after_turn, row.pk, {row.membership_id: row.amount}))
    lags = {member.pk: 0 for member in team.memberships.all()}
    for turn, _, changes in sorted(steps, key=lambda step: step[:2]):
        before = dict(lags)
        for member, change in changes.items():
            lags[member] += change
        found = Assignment.objects.filter(team=team, turn=turn).first()
        if found and _ == 0:
            assert (before[found.membership_id], lags[found.membership_id]) == (found.lag_before, found.lag_after)
    return lags


def lags(team: Team) -> dict[int, int]:
    return dict(team.memberships.values_list("pk", "lag"))


def test_one_lead_is_the_same_number_in_rows_and_in_rehearsals() -> None:
    assert (shares.SCALE, shares.ROUNDING) == (SCALE, ROUNDING)


@pytest.mark.django_db(transaction=True)
def test_a_credit_of_two_leads_brings_two_more_than_the_others_get() -> None:
    team = make_team(reps=3)
    lucky = team.memberships.order_by("pk")[2]
    credit(lucky, "2")
    for _ in range(3 * 4 + 3):
        take_turns(team_id=team.pk, lead_id=make_lead(team=team).pk)
    counts = {member.pk: member.assignments.count() for member in team.memberships.all()}
    assert counts[lucky.pk] == 6 or counts[lucky.pk] == 7
    assert sum(lags(team).values()) == 2 * SCALE


@pytest.mark.django_db(transaction=True)
def test_a_credit_below_nought_lets_the_others_go_first() -> None:
    team = make_team(reps=2)
    first, second = team.memberships.order_by("pk")
    credit(first, "-1.5", reason="took two at the fair")
    for _ in range(3):
        take_turns(team_id=team.pk, lead_id=make_lead(team=team).pk)
    assert second.assignments.count() == 3 or first.assignments.get().turn == 3


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("leads", "reason", "by"),
    [("0", "x", "y"), ("1", " ", "y"), ("1", "x", ""), ("1001", "x", "y"), ("-1001", "x", "y")],
)
def test_a_credit_needs_an_amount_a_reason_and_a_giver(leads: str, reason: str, by: str) -> None:
    with pytest.raises(NoCredit):
        credit(make_team(reps=1).memberships.get(), leads, reason, by)


@pytest.mark.django_db(transaction=True)
@given(seed=st.integers(0, 10**6), weights=st.lists(st.integers(1, 100), min_size=1, max_size=4))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_lags_add_up_to_credits_and_a_replay_by_turn_gives_them_again(seed: int, weights: list[int]) -> None:
    dice = random.Random(seed)
    team = make_team(weights=tuple(weights))
    for _ in range(12):
        member = dice.choice(list(team.memberships.all()))
        what = dice.randrange(4)
        if what == 0:
            credit(member, str(dice.choice([-3, -1, 1, 2, 5])))
        elif what == 1:
            with transaction.atomic():
                members.set_weight(membership=member, weight=dice.randint(1, 100))
        elif what == 2 and (won := Assignment.objects.filter(team=team, ended_at=None).order_by("?").first()):
            with transaction.atomic():
                ended = Assignment.objects.filter(pk=won.pk)
                ended.update(ended_at=won.assigned_at, end_reason=Assignment.EndReason.UNDONE)
                give_back(assignments=ended.select_related("roster"), reason="undone", by="ops")
        take_turns(team_id=team.pk, lead_id=make_lead(team=team).pk)
    assert replayed(team) == lags(team)
    given = Credit.objects.filter(membership__team=team)
    assert sum(lags(team).values()) == sum(row.amount for row in given)
    assert sum(row.amount for row in given if row.kind == Credit.Kind.UNDONE) == 0


@pytest.mark.django_db(transaction=True)
def test_turns_given_back_leave_lags_as_if_they_had_never_been() -> None:
    team = make_team(weights=(3, 1, 7))
    before = lags(team)
    for _ in range(23):
        take_turns(team_id=team.pk, lead_id=make_lead(team=team).pk)
    with transaction.atomic():
        give_back(assignments=Assignment.objects.select_related("roster"), reason="import undone", by="ops")
    assert lags(team) == before
    assert Credit.objects.count() <= 3


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"amount": 0}, "credit_moves_something"),
        ({"reason": ""}, "credit_has_a_reason_and_a_giver"),
        ({"by": ""}, "credit_has_a_reason_and_a_giver"),
        ({"kind": "gift"}, "credit_kind_is_known"),
    ],
)
def test_the_database_refuses_a_credit_that_says_nothing(fields: dict[str, Any], name: str) -> None:
    member = make_team(reps=1).memberships.get()
    good = {"membership": member, "kind": "manual", "amount": 1, "after_turn": 0, "reason": "x", "by": "y"}
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        Credit.objects.create(**{**good, **fields})
