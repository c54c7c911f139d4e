"""Two teams with a rep in both, and what can happen to them, as a hypothesis state machine over the real SQL.

After every step what the README promises is looked for in the tables: nothing lost and nothing twice, nobody over
a cap by a turn, the oldest first, every turn the rule's, lags that add up, and nobody waiting for somebody present.
"""

from contextlib import suppress
from datetime import timedelta
from decimal import Decimal

from django.db import transaction
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from routing import credits, hand_back, leads, members, reassign
from routing.errors import HasLeft, LeadClosed, NobodyElse, NotUndone
from routing.models import Assignment, HandOver, Lead, Membership, Rep, Team, TeamPart
from routing.sweep import sweep_team
from routing.turns import take_turns
from tests.conftest import delete_rows
from tests.make import make_lead, make_member, make_rep, make_source, make_team
from tests.properties.ledger import read_ledger
from tests.races.crowd import at_once, faults, rows, take_in, take_in_for

NEAR_ONE = 1.5
"""README: where candidates differ from lead to lead the difference stays near one, about 1.3."""
MEMBERS_MOST = 7
SOME = st.integers(0, 10**6)
WEIGHTS = st.sampled_from([1, 1, 2, 3, 5, 19, 100])
CAPS = st.sampled_from([None, None, None, 1, 3, 8])
ALLOWED = st.one_of(st.none(), st.sets(st.integers(0, MEMBERS_MOST - 1), min_size=1, max_size=3))
LEADS = st.integers(-3_000, 3_000).filter(bool).map(lambda thousandths: Decimal(thousandths) / 1000)
YEAR = timedelta(days=365)


class TeamsOverTime(RuleBasedStateMachine):
    """Each rule is one thing that happens; those with `crowd` in their name happen over several connections at once."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0  # the last assignment that was looked at
        self.changed = False  # by a person in the step under way, past caps

    @initialize(reps=st.lists(st.tuples(WEIGHTS, CAPS, st.booleans()), min_size=1, max_size=4))
    def begin(self, reps: list[tuple[int, int | None, bool]]) -> None:
        self.teams = [make_team(outside_hours="wait"), make_team(outside_hours="ignore")]
        self.sources = [make_source(team=team) for team in self.teams]
        both = make_rep()
        for team in self.teams:
            for weight, cap, now in reps:
                self.join(team, make_rep(open_cap=cap), weight, now=now)
            self.join(team, both, 1)

    def teardown(self) -> None:
        delete_rows(None)  # type: ignore[arg-type]

    # what it chooses from

    def join(self, team: Team, rep: Rep, weight: int, *, now: bool = True) -> None:
        with transaction.atomic():
            members.set_shifts(rep=rep, ranges=self.hours(now))
        make_member(team=team, rep=rep, weight=weight)

    def hours(self, now: bool) -> list:
        start = timezone.now() + (-timedelta(days=1) if now else YEAR)
        return [(start, start + YEAR)]

    def team(self, number: int) -> Team:
        return self.teams[number % 2]

    def member(self, number: int) -> Membership:
        found = list(Membership.objects.select_related("rep", "team").order_by("pk"))
        return found[number % len(found)]

    def part(self, team: Team, allowed: set[int] | None) -> TeamPart | None:
        if allowed is None:
            return None
        found = list(Membership.objects.filter(team=team).order_by("pk"))
        return members.part_of(team=team, memberships=[found[number % len(found)] for number in allowed])

    def open_lead(self, number: int) -> Lead | None:
        found = list(Lead.objects.filter(status__in=Lead.OPEN).order_by("-pk")[:10])
        return found[number % len(found)] if found else None

    # who takes turns

    @rule(team=SOME, weight=WEIGHTS, cap=CAPS)
    def somebody_joins(self, team: int, weight: int, cap: int | None) -> None:
        if self.team(team).memberships.count() < MEMBERS_MOST:
            self.join(self.team(team), make_rep(day_cap=cap), weight)

    @rule(number=SOME, active=st.booleans())
    def somebody_leaves_or_returns(self, number: int, active: bool) -> None:
        with transaction.atomic():
            members.set_active(memberships=Membership.objects.filter(pk=self.member(number).pk), active=active)

    @rule(number=SOME, weight=WEIGHTS)
    def a_weight_changes(self, number: int, weight: int) -> None:
        with transaction.atomic():
            members.set_weight(membership=self.member(number), weight=weight)

    @rule(number=SOME, day=CAPS, week=CAPS, opened=CAPS)
    def caps_change(self, number: int, day: int | None, week: int | None, opened: int | None) -> None:
        with transaction.atomic():
            members.set_caps(rep=self.member(number).rep, day_cap=day, week_cap=week, open_cap=opened, zone="UTC")

    @rule(number=SOME, now=st.booleans())
    def hours_begin_or_end(self, number: int, now: bool) -> None:
        with transaction.atomic():
            members.set_shifts(rep=self.member(number).rep, ranges=self.hours(now))

    @rule(number=SOME)
    def somebody_retires(self, number: int) -> None:
        member = self.member(number)
        if Rep.objects.filter(retired_at=None).count() > 2:
            with transaction.atomic():
                members.retire_reps(reps=Rep.objects.filter(pk=member.rep_id))

    @rule(number=SOME, amount=LEADS)
    def a_credit(self, number: int, amount: Decimal) -> None:
        with transaction.atomic():
            credits.give_credit(membership=self.member(number), leads=amount, reason="make-up", by="Kim")

    @rule(team=SOME, counts=st.booleans())
    def direct_leads_count_or_not(self, team: int, counts: bool) -> None:
        with transaction.atomic():
            members.set_direct_counts(team=self.team(team), direct_counts=counts)

    # leads

    @rule(team=SOME, allowed=ALLOWED, preferred=st.one_of(st.none(), st.none(), SOME))
    def a_lead_arrives(self, team: int, allowed: set[int] | None, preferred: int | None) -> None:
        to = self.team(team)
        sole = None if preferred is None else self.member(preferred)
        take_in_for(to, self.part(to, allowed), preferred=sole if sole and sole.team_id == to.pk else None)

    @rule(team=SOME, count=st.integers(2, 12), allowed=ALLOWED, most=st.sampled_from([1, 3, 100]))
    def a_batch_arrives(self, team: int, count: int, allowed: set[int] | None, most: int) -> None:
        to = self.team(team)
        part = self.part(to, allowed)
        for number in range(count):
            make_lead(team=to, part=part if number % 2 else None)
        before = last_assignment()
        take_turns(team_id=to.pk, most=most)
        turns = Assignment.objects.filter(pk__gt=before).order_by("turn")
        taken = list(turns.values_list("lead_id", flat=True))
        assert taken == sorted(taken), "a newer lead went before an older one"

    @rule(count=st.integers(2, 8))
    def a_crowd_arrives(self, count: int) -> None:
        answers = at_once(count, lambda number: take_in(self.sources[number % 2]))
        assert not faults(answers)

    @rule(team=SOME, number=SOME, what=st.sampled_from(["weight", "leave", "credit", "sweep", "hand", "close"]))
    def a_crowd_arrives_while_something_changes(self, team: int, number: int, what: str) -> None:
        source = self.sources[team % 2]

        def work(place: int) -> object:
            return self.change(what, number) if place == 0 else take_in(source)

        self.changed = what == "hand"
        assert not faults(at_once(5, work))

    def change(self, what: str, number: int) -> object:
        match what:
            case "weight":
                return self.a_weight_changes(number, 7)  # type: ignore[call-arg]
            case "leave":
                return self.somebody_leaves_or_returns(number, False)  # type: ignore[call-arg]
            case "credit":
                return self.a_credit(number, Decimal(1))  # type: ignore[call-arg]
            case "hand":
                return self.by_hand(number, number)
            case "close":
                return self.closed(number)
        return sweep_team(team_id=self.team(number).pk)

    # what people do to leads

    @rule(lead=SOME, to=SOME)
    def a_lead_is_given_by_hand(self, lead: int, to: int) -> None:
        self.changed = True
        self.by_hand(lead, to)

    def by_hand(self, number: int, to: int) -> None:
        lead = self.open_lead(number)
        if lead is None:
            return
        with suppress(HasLeft, LeadClosed), transaction.atomic():
            reassign.assign_by_hand(lead_id=lead.pk, membership=self.member(to), by="Kim", reason="knows them")

    @rule(number=SOME)
    def a_lead_is_declined(self, number: int) -> None:
        lead = self.open_lead(number)
        if lead is None:
            return
        with suppress(LeadClosed, NobodyElse):
            reassign.decline(lead_id=lead.pk, by="Kim", reason="not mine")

    @rule(number=SOME, back=st.booleans())
    def open_leads_are_handed_over(self, number: int, back: bool) -> None:
        reassign.give_to_the_others(membership=self.member(number), by="Kim", reason="ill", turns_back=back)

    @rule()
    def a_hand_over_is_taken_back(self) -> None:
        run = HandOver.objects.order_by("-pk").first()
        if run:
            with suppress(NotUndone, HasLeft):
                hand_back.undo(hand_over_id=run.pk, by="Kim")

    @rule(number=SOME)
    def a_lead_is_closed(self, number: int) -> None:
        self.closed(number)

    def closed(self, number: int) -> None:
        lead = self.open_lead(number)
        if lead is not None:
            with transaction.atomic():
                leads.close(lead_ids=[lead.pk])

    @rule()
    def everything_is_swept(self) -> None:
        for team in self.teams:
            assert sweep_team(team_id=team.pk).set_aside == 0
        for lead in Lead.objects.waiting().select_related("part", "team"):
            assert not list(self.could_take(lead)), "a lead waits though somebody could take it"

    def could_take(self, lead: Lead) -> list[Membership]:
        """Worked out from the tables in Python, not by what the turn reads them with."""
        found = []
        for member in lead.team.memberships.filter(active=True, rep__retired_at=None).select_related("rep"):
            allowed = lead.part is None or member.pk in lead.part.members
            if allowed and at_work(lead.team, member.rep) and all(had < cap for had, cap in had_of(member.rep)):
                found.append(member)
        return found

    # what has to hold, whatever happened

    @invariant()
    def every_lead_is_with_one_rep_or_visibly_waiting(self) -> None:
        twice = "SELECT lead_id FROM routing_assignment WHERE ended_at IS NULL GROUP BY 1 HAVING count(*) > 1"
        assert not rows(twice)
        current = set(Assignment.objects.current().values_list("lead_id", flat=True))
        assert current == set(Lead.objects.filter(status=Lead.Status.ASSIGNED).values_list("pk", flat=True))
        told = {row[0] for row in rows("SELECT external_id FROM crmsync_crmrecord WHERE object = 'Lead'")}
        given = Assignment.objects.values_list("lead__uid", flat=True).distinct()
        assert told == set(map(str, given)), "whatever was given to somebody is on its way to the CRM"

    @invariant()
    def no_turn_went_past_a_cap_a_rule_or_somebodys_hours(self) -> None:
        new = Assignment.objects.filter(pk__gt=self.seen, chosen_by="")
        for turn in new.select_related("membership__rep", "lead__part", "team"):
            rep, part = turn.membership.rep, turn.lead.part
            assert self.changed or all(had <= cap for had, cap in had_of(rep)), "more than a cap allows"
            assert part is None or turn.membership_id in part.members, "the rule does not allow it"
            assert at_work(turn.team, rep) and rep.retired_at is None, "nobody was there"
        self.seen, self.changed = last_assignment(), False

    @invariant()
    def every_turn_was_the_rules(self) -> None:
        for team in getattr(self, "teams", ()):
            ledger = read_ledger(team)
            assert ledger.furthest < NEAR_ONE, f"{ledger.furthest:.3f} leads from the share due"


def had_of(rep: Rep) -> list[tuple[int, int]]:
    """What a rep has had and may have, for each cap: counted from the assignments."""
    today = timezone.now().date()
    theirs = Assignment.objects.filter(membership__rep=rep)
    monday = today - timedelta(days=today.weekday())
    counted = [
        (theirs.filter(assigned_at__date__gte=today).count(), rep.day_cap),
        (theirs.filter(assigned_at__date__gte=monday).count(), rep.week_cap),
        (theirs.filter(ended_at=None).count(), rep.open_cap),
    ]
    return [(had, cap) for had, cap in counted if cap is not None]


def at_work(team: Team, rep: Rep) -> bool:
    return team.outside_hours == "ignore" or rep.shifts.filter(during__contains=timezone.now()).exists()


def last_assignment() -> int:
    return Assignment.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
