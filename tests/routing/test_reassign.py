"""Leads change hands: by hand, by declining, by the dozen; the history, the counters and the CRM keep up."""

from datetime import timedelta

import pytest
from django.db import transaction
from django_q.models import OrmQ

from crmsync.models import OutboxMessage
from routing import leads, members
from routing.errors import HasLeft, LeadClosed, NobodyElse, NoReason
from routing.models import Assignment, Credit, Lead, Membership, Rep, RepCount, Team
from routing.models.team import SCALE
from routing.reassign import assign_by_hand, decline, give_to_the_others
from routing.sweep import sweep_team
from routing.turns import take_turns
from tests.make import make_lead, make_member, make_rep, make_team
from tests.routing.test_credits import lags, replayed

pytestmark = pytest.mark.django_db(transaction=True)


def assigned(team: Team, count: int = 1) -> list[Lead]:
    made = [make_lead(team=team, first_name="Pat") for _ in range(count)]
    take_turns(team_id=team.pk, most=1_000)
    return [Lead.objects.get(pk=lead.pk) for lead in made]


def current(lead: Lead) -> Assignment:
    return Assignment.objects.current().get(lead=lead)


def by_hand(lead: Lead, membership: Membership, **options: bool) -> Assignment:
    with transaction.atomic():
        return assign_by_hand(lead_id=lead.pk, membership=membership, by="Kim", reason="knows them", **options)


def other_than(assignment: Assignment) -> Membership:
    return assignment.team.memberships.exclude(pk=assignment.membership_id).order_by("pk")[0]


def outbox(lead: Lead) -> list[dict[str, str]]:
    found = OutboxMessage.objects.filter(record__external_id=str(lead.uid), status="pending")
    return list(found.values_list("fields", flat=True))


def test_a_lead_given_by_hand_leaves_its_history_and_its_first_date_alone() -> None:
    team = make_team(reps=2)
    (lead,) = assigned(team)
    first = current(lead)
    before, when = lags(team), lead.first_assigned_at
    new = by_hand(lead, other_than(first))
    first.refresh_from_db()
    lead.refresh_from_db()
    assert (first.end_reason, first.ended_by, first.end_note) == ("reassigned", "Kim", "knows them")
    assert (new.chosen_by, new.note, new.turn, lead.first_assigned_at) == ("Kim", "knows them", 2, when)
    assert lags(team) == before == replayed(team)
    assert new.roster.skipped == {str(first.membership_id): "another was chosen"}


def test_the_crm_is_told_the_new_owner_and_nothing_else() -> None:
    team = make_team()
    make_member(team=team, rep=make_rep(crm_user_id="005000000000001"))
    second = make_member(team=team, rep=make_rep(crm_user_id="005000000000002"))
    (lead,) = assigned(team)
    OutboxMessage.objects.all().delete()
    by_hand(lead, second)
    assert outbox(lead) == [{"owner": "005000000000002"}]


def test_a_waiting_lead_given_by_hand_is_told_to_the_crm_whole() -> None:
    team = make_team()
    member = make_member(team=team, rep=make_rep(crm_user_id="005000000000001", day_cap=0))
    lead = make_lead(team=team, first_name="Pat")
    assert take_turns(team_id=team.pk, lead_id=lead.pk).outcome == "waiting"
    assignment = by_hand(lead, member)
    lead.refresh_from_db()
    assert (lead.status, lead.first_assigned_at) == ("assigned", assignment.assigned_at)
    assert outbox(lead)[0]["first_name"] == "Pat" and outbox(lead)[0]["owner"] == "005000000000001"


def test_a_choice_costs_a_turn_where_direct_leads_count() -> None:
    team = make_team(reps=2)
    with transaction.atomic():
        members.set_direct_counts(team=team, direct_counts=True)
    one, two = team.memberships.order_by("pk")
    for _ in range(2):
        by_hand(make_lead(team=team), two)
    assert lags(team) == {one.pk: SCALE, two.pk: -SCALE} == replayed(team)
    got = assigned(team, 2)
    assert {current(lead).membership for lead in got} == {one}


def test_giving_the_turn_back_leaves_the_lags_as_before_the_turn() -> None:
    team = make_team(reps=2)
    (lead,) = assigned(team)
    by_hand(lead, other_than(current(lead)), turn_back=True)
    assert set(lags(team).values()) == {0}
    assert replayed(team) == lags(team)


def test_a_choice_moves_a_lead_into_the_team_of_the_chosen_rep() -> None:
    (lead,) = assigned(make_team(reps=1))
    elsewhere = make_member(team=make_team())
    by_hand(lead, elsewhere)
    lead.refresh_from_db()
    assert (lead.team, current(lead).membership) == (elsewhere.team, elsewhere)


def test_counters_follow_a_lead_that_changes_hands() -> None:
    team = make_team()
    one = make_member(team=team, rep=make_rep(open_cap=5, day_cap=5))
    two = make_member(team=team, rep=make_rep(open_cap=5, day_cap=5))
    (lead,) = assigned(team)
    by_hand(lead, two if current(lead).membership == one else one)
    counts = {(row.rep_id, row.kind): row.count for row in RepCount.objects.all()}
    new, old = current(lead).membership.rep_id, lead.assignments.exclude(ended_at=None).get().membership.rep_id
    assert counts == {(new, "open"): 1, (new, "day"): 1, (old, "open"): 0, (old, "day"): 1}


def test_no_automatic_move_may_end_a_persons_choice() -> None:
    team = make_team(reps=2)
    (lead,) = assigned(team)
    assert Assignment.objects.current().filter(chosen_by="", lead=lead).exists()
    chosen = by_hand(lead, other_than(current(lead)))
    assert not Assignment.objects.current().filter(chosen_by="", lead=lead).exists()
    sweep_team(team_id=team.pk)
    take_turns(team_id=team.pk, lead_id=lead.pk)
    assert current(lead) == chosen


def test_a_person_who_chooses_the_rep_it_has_makes_it_a_persons_choice() -> None:
    team = make_team(reps=1)
    (lead,) = assigned(team)
    assert by_hand(lead, current(lead).membership).chosen_by == "Kim"
    assert lead.assignments.count() == 1


def test_a_closed_lead_a_rep_who_left_and_a_choice_without_reason_are_refused() -> None:
    team = make_team(reps=2)
    lead, closed = assigned(team, 2)
    gone = other_than(current(lead))
    with transaction.atomic():
        leads.close(lead_ids=[closed.pk])
        members.retire_reps(reps=Rep.objects.filter(pk=gone.rep_id))
    with pytest.raises(LeadClosed):
        by_hand(closed, current(lead).membership)
    with pytest.raises(HasLeft):
        by_hand(lead, gone)
    with pytest.raises(NoReason), transaction.atomic():
        assign_by_hand(lead_id=lead.pk, membership=gone, by="Kim", reason=" ")
    assert lead.assignments.count() == 1


def test_who_declines_gets_the_turn_back_and_another_gets_the_lead() -> None:
    team = make_team(reps=3)
    (lead,) = assigned(team)
    first = current(lead)
    turn = decline(lead_id=lead.pk, by="Lee", reason="my neighbour")
    first.refresh_from_db()
    assert (first.end_reason, first.ended_by) == ("declined", "Lee")
    assert turn.taken == 1 and current(lead).membership != first.membership
    assert first.membership.lag == 0 == Membership.objects.get(pk=first.membership_id).lag
    assert replayed(team) == lags(team)
    assert sum(row.amount for row in Credit.objects.all()) == 0


def test_the_only_rep_cannot_decline() -> None:
    (lead,) = assigned(make_team(reps=1))
    with pytest.raises(NobodyElse):
        decline(lead_id=lead.pk, by="Lee", reason="no time")
    assert lead.assignments.get().ended_at is None


def test_the_open_leads_of_a_rep_go_to_the_rest_of_the_team_in_fair_turn() -> None:
    team = make_team(reps=4)
    assigned(team, 24)
    leaver = team.memberships.order_by("pk")[0]
    dates = dict(Lead.objects.values_list("pk", "first_assigned_at"))
    moved = give_to_the_others(membership=leaver, by="Kim", reason="left the company")
    assert (moved.taken, moved.waiting, moved.kept) == (6, 0, 0)
    rest = team.memberships.exclude(pk=leaver.pk)
    assert [member.assignments.current().count() for member in rest] == [8, 8, 8]
    assert dict(Lead.objects.values_list("pk", "first_assigned_at")) == dates
    assert replayed(team) == lags(team)
    taken = Assignment.objects.current().filter(turn__gt=24).order_by("turn").values_list("lead_id", flat=True)
    assert list(taken) == sorted(taken)


def test_leads_a_person_gave_to_the_rep_stay_unless_asked_for_too() -> None:
    team = make_team(reps=2)
    one, two = team.memberships.order_by("pk")
    by_hand(make_lead(team=team), one)
    assert give_to_the_others(membership=one, by="Kim", reason="ill").kept == 1
    assert give_to_the_others(membership=one, by="Kim", reason="ill", also_chosen=True).taken == 1
    assert two.assignments.current().count() == 1


def test_leads_that_nobody_present_may_take_wait_for_the_others_and_never_for_the_leaver() -> None:
    team = make_team(reps=2)
    assigned(team, 2)
    one, two = team.memberships.order_by("pk")
    Rep.objects.filter(pk=two.rep_id).update(day_cap=0)
    moved = give_to_the_others(membership=one, by="Kim", reason="ill")
    assert (moved.taken, moved.waiting) == (0, 1)
    assert sweep_team(team_id=team.pk).taken == 0
    with transaction.atomic():
        members.set_caps(rep=two.rep, day_cap=None, week_cap=None, open_cap=None, zone="UTC")
    assert sweep_team(team_id=team.pk).taken == 1


def test_a_skill_goes_with_the_lead_when_it_changes_hands() -> None:
    team = make_team(reps=3)
    one, two, three = team.memberships.order_by("pk")
    with transaction.atomic():
        part = members.part_of(team=team, memberships=[one, two])
        alone = members.part_of(team=team, memberships=[one])
    for _ in range(4):
        make_lead(team=team, part=part)
    make_lead(team=team, part=alone)
    take_turns(team_id=team.pk)
    moved = give_to_the_others(membership=one, by="Kim", reason="ill")
    assert (moved.taken, moved.kept) == (2, 1)
    assert three.assignments.count() == 0


def test_an_assignment_is_over_before_the_next_begins() -> None:
    team = make_team(reps=2)
    (lead,) = assigned(team)
    by_hand(lead, other_than(current(lead)))
    first, second = lead.assignments.order_by("pk")
    assert first.ended_at and timedelta(0) <= second.assigned_at - first.ended_at < timedelta(seconds=5)


@pytest.mark.parametrize("how", ["handed over", "by hand", "declined"])
def test_a_cap_that_frees_has_the_reps_other_teams_swept(how: str) -> None:
    here, there, full = make_team(), make_team(), make_rep(open_cap=1)
    mine, other = make_member(team=here, rep=full), make_member(team=here)
    Membership.objects.filter(pk=other.pk).update(active=False)
    make_member(team=there, rep=full)
    (held,) = assigned(here)
    (waits,) = assigned(there)
    assert waits.status == "waiting", "the rep has as many open leads as the cap allows"
    Membership.objects.filter(pk=other.pk).update(active=True)
    OrmQ.objects.all().delete()
    if how == "handed over":
        give_to_the_others(membership=mine, by="Kim", reason="ill")
    elif how == "declined":
        decline(lead_id=held.pk, by="Kim", reason="not mine")
    else:
        by_hand(held, other)
    asked = [task.task["args"] for task in OrmQ.objects.all() if task.task["func"] == "routing.tasks.sweep_team"]
    assert (there.pk,) in asked
    sweep_team(team_id=there.pk)
    assert current(waits).membership.rep == full
