"""Whatever happens in a team, many turns in one call are the turns one by one, and nobody strays far from the share."""

from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from routing import credits, members
from routing.models import Assignment, Lead, Membership, Team
from tests.make import make_lead, make_member, make_rep, make_team
from tests.properties.ledger import read_ledger
from tests.races.crowd import rows
from tests.races.replay import replay

MOST = 6
CAP = st.tuples(st.sampled_from(["day_cap", "week_cap", "open_cap"]), st.sampled_from([None, None, None, 1, 3]))
LEAD = st.tuples(
    st.just("lead"),
    st.one_of(st.none(), st.sets(st.integers(0, MOST), min_size=1, max_size=4)),
    st.one_of(st.none(), st.none(), st.none(), st.integers(0, MOST)),
)
CHANGE = st.one_of(
    st.tuples(st.just("weight"), st.integers(0, MOST), st.integers(1, 100)),
    st.tuples(st.just("leave"), st.integers(0, MOST), st.none()),
    st.tuples(st.just("return"), st.integers(0, MOST), st.none()),
    st.tuples(st.just("join"), CAP, st.integers(1, 20)),
    st.tuples(st.just("credit"), st.integers(0, MOST), st.integers(-2_000, 2_000).filter(bool)),
    st.tuples(st.just("direct leads count"), st.none(), st.booleans()),
    st.tuples(st.just("turns"), st.none(), st.none()),
)
STEPS = st.lists(st.one_of(LEAD, LEAD, LEAD, CHANGE), min_size=1, max_size=40)
WEIGHTS = st.lists(st.sampled_from([1, 1, 2, 3, 5, 10, 19, 50, 100]), min_size=1, max_size=MOST)
CAPS = st.lists(CAP, min_size=MOST, max_size=MOST)


class Twin:
    """One of two teams that live through the same; `most` is how many turns it takes in a call."""

    def __init__(self, weights: list[int], caps: list[tuple[str, int | None]], most: int) -> None:
        self.most = most
        self.team = make_team()
        self.members: list[Membership] = []
        for weight, cap in zip(weights, caps, strict=False):
            self.join(cap, weight)

    def join(self, cap: tuple[str, int | None], weight: int) -> None:
        kind, most = cap
        self.members.append(make_member(team=self.team, rep=make_rep(**{kind: most}), weight=weight))

    def member(self, number: int) -> Membership:
        return self.members[number % len(self.members)]

    def step(self, what: str, first, second) -> None:
        match what:
            case "lead":
                allowed = {self.member(number) for number in first} if first else None
                part = members.part_of(team=self.team, memberships=allowed) if allowed else None
                preferred = None if second is None else self.member(second)
                if allowed and preferred not in allowed:
                    preferred = None
                make_lead(team=self.team, part=part, preferred=preferred)
            case "weight":
                members.set_weight(membership=self.member(first), weight=second)
            case "leave" | "return":
                chosen = Membership.objects.filter(pk=self.member(first).pk)
                members.set_active(memberships=chosen, active=what == "return")
            case "join":
                if len(self.members) <= MOST:
                    self.join(first, second)
            case "credit":
                leads = Decimal(second) / 1_000
                credits.give_credit(membership=self.member(first), leads=leads, reason="make-up", by="Kim")
            case "direct leads count":
                members.set_direct_counts(team=self.team, direct_counts=second)
            case "turns":
                self.take_turns()

    def take_turns(self) -> None:
        while rows("SELECT taken FROM take_turns(%s, NULL, %s)", self.team.pk, self.most)[0][0] == self.most:
            pass

    def told(self) -> tuple[list, list]:
        """Who got which lead in which turn and with what lag, in numbers that do not depend on the keys."""
        members = {member.pk: number for number, member in enumerate(self.members)}
        leads = {
            pk: n
            for n, pk in enumerate(Lead.objects.filter(team=self.team).order_by("pk").values_list("pk", flat=True))
        }
        turns = Assignment.objects.filter(team=self.team).order_by("turn")
        return (
            [
                (t.turn, leads[t.lead_id], members[t.membership_id], t.preferred, t.lag_before, t.lag_after)
                for t in turns
            ],
            list(Membership.objects.filter(team=self.team).order_by("pk").values_list("lag", "last_turn", "weight")),
        )


class BatchOrderIsSerialOrder(TestCase):
    @settings(
        max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(weights=WEIGHTS, caps=CAPS, steps=STEPS)
    def test_turns_in_one_call_are_the_turns_one_by_one(self, weights, caps, steps):
        batch, singly = Twin(weights, caps, 1000), Twin(weights, caps, 1)
        for what, first, second in [*steps, ("turns", None, None)]:
            for twin in (batch, singly):
                twin.step(what, first, second)
        assert batch.told() == singly.told()
        for twin in (batch, singly):
            assert read_ledger(twin.team).furthest < 2

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(weights=WEIGHTS, calls=st.lists(st.integers(1, 30), min_size=1, max_size=5))
    def test_with_the_same_candidates_nobody_is_a_whole_lead_from_the_share_due(self, weights, calls):
        team: Team = make_team(weights=tuple(weights))
        for count in calls:
            for _ in range(count):
                make_lead(team=team)
            rows("SELECT taken FROM take_turns(%s)", team.pk)
        replayed = replay(team)
        assert replayed.turns == sum(calls) and replayed.worst < 1
