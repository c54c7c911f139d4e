"""Who takes turns may change at any moment: a change falls between two turns, never into one."""

from contextlib import contextmanager

import pytest
from django.db import transaction

from routing import members
from routing.models import Assignment, Lead, Membership, Rep, Team
from routing.sweep import sweep_team, sweep_teams
from routing.turns import take_turns
from tests.make import make_lead, make_member, make_source, make_team
from tests.races.controls import until_seen
from tests.races.crowd import (
    at_once,
    beside,
    faults,
    scalar,
    second_connection,
    take_in,
    until,
    waiting_for_a_lock,
)
from tests.races.replay import nothing_lost_nothing_twice, replay

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def stopped_in_its_middle(lead):
    """The first turn of a team of one stops after the candidates are read: somebody else writes the same roster."""
    with second_connection() as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(SAME_ROSTER, [lead.team_id])
        with beside(lambda: take_turns(team_id=lead.team_id, lead_id=lead.pk, wait_ms=10_000)) as answers:
            until(lambda: waiting_for_a_lock("transactionid"))
            try:
                yield answers
            finally:
                cursor.execute("ROLLBACK")


SAME_ROSTER = """
    INSERT INTO routing_roster (team_id, digest, candidates, skipped)
    SELECT team_id, md5(jsonb_build_object(id, weight)::text || '{}'), '{}', '{}'
      FROM routing_membership WHERE team_id = %s
"""


def test_control_a_member_taken_out_without_the_turnstile_gets_a_lead_afterwards():
    def attempt():
        team = make_team(reps=1)
        lead = make_lead(team=team)
        with stopped_in_its_middle(lead):
            Membership.objects.filter(team=team).update(active=False)
            left_with = Assignment.objects.filter(team=team).count()
        return {"leads_when_taken_out": left_with, "leads_after": Assignment.objects.filter(team=team).count()}

    until_seen(attempt, lambda seen: seen["leads_after"], "update without the turnstile (one turn under way)")


def test_a_member_taken_out_during_a_turn_is_out_when_the_turn_is_over():
    team = make_team(reps=1)
    lead = make_lead(team=team)
    counted = []

    def take_out():
        with transaction.atomic():
            members.set_active(memberships=Membership.objects.filter(team=team), active=False)
            counted.append(Assignment.objects.filter(team=team).count())

    with stopped_in_its_middle(lead):
        change = beside(take_out)
        change.__enter__()
        until(waiting_for_a_lock)
        assert not counted, "the change waits for the turn"
    change.__exit__(None, None, None)
    assert counted == [1]
    make_lead(team=team)
    assert sweep_team(team_id=team.pk).taken == 0
    assert replay(team).turns == 1


def edits_of(team, numbers):
    """Changes of all kinds to a team's members, one after the other."""
    for number in numbers:
        with transaction.atomic():
            mine = list(Membership.objects.filter(team=team).order_by("pk"))
            chosen = mine[number % len(mine)]
            match number % 5:
                case 0:
                    members.set_weight(membership=chosen, weight=1 + number % 7)
                case 1:
                    members.set_active(memberships=Membership.objects.filter(pk=chosen.pk), active=False)
                case 2:
                    members.set_active(memberships=Membership.objects.filter(team=team), active=True)
                case 3:
                    make_member(team=team)
                case 4:
                    members.set_caps(rep=chosen.rep, day_cap=40 + number, week_cap=None, open_cap=None, zone="UTC")


def test_members_come_go_and_change_weight_while_leads_pour_in():
    team = make_team(weights=(3, 2, 1, 1))
    source = make_source(team=team)

    edited = []

    def work(number):
        """Leads and changes keep pace: two changes at least before the next round of leads, ten leads before a
        change.
        """
        if number:
            for turn in range(6):
                until(lambda turn=turn: len(edited) >= 2 * turn)
                take_in(source)
            return
        for edit in range(15):
            until(lambda edit=edit: Lead.objects.count() >= 10 * edit)
            edits_of(team, [edit])
            edited.append(edit)

    assert not faults(at_once(30, work))
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(team=team), active=True)
    sweep_team(team_id=team.pk)
    assert not Lead.objects.waiting().exists()
    replayed = replay(team)
    assert replayed.turns == 29 * 6 and replayed.worst < 2
    assert Assignment.objects.values("roster").distinct().count() > 1, "the changes fell among the turns"
    nothing_lost_nothing_twice()


def test_a_team_retired_in_a_burst_gives_out_nothing_more_and_its_leads_stay_visible():
    team = make_team(reps=3)
    source = make_source(team=team)
    when_retired = []

    def work(number):
        if number:
            return [take_in(source) for _ in range(6)]
        until(lambda: Assignment.objects.filter(team=team).count() >= 30)
        with transaction.atomic():
            members.retire_teams(teams=Team.objects.filter(pk=team.pk))
            when_retired.append(Assignment.objects.filter(team=team).count())
        return []

    answers = at_once(30, work)
    assert not faults(answers)
    assert {answer.outcome for each in answers for answer in each} == {"assigned", "waiting"}
    sweep_teams()
    assert sweep_team(team_id=team.pk).taken == 0
    assert Assignment.objects.count() == when_retired[0] < Lead.objects.count() == 29 * 6
    assert Lead.objects.waiting().count() == 29 * 6 - when_retired[0], "nothing is lost: they wait where all can see"
    assert replay(team).worst < 1
    nothing_lost_nothing_twice()


def test_a_rep_retired_in_a_burst_gets_nothing_more_in_any_team():
    teams = [make_team(reps=2), make_team(reps=2)]
    rep = make_member(team=teams[0]).rep
    make_member(team=teams[1], rep=rep)
    sources = [make_source(team=team) for team in teams]
    when_retired = []

    def work(number):
        if number:
            return [take_in(sources[(number + turn) % 2]) for turn in range(5)]
        until(lambda: Assignment.objects.filter(membership__rep=rep).count() >= 5)
        with transaction.atomic():
            members.retire_reps(reps=Rep.objects.filter(pk=rep.pk))
            when_retired.append(Assignment.objects.filter(membership__rep=rep).count())
        return []

    assert not faults(at_once(30, work))
    sweep_teams()
    assert Assignment.objects.filter(membership__rep=rep).count() == when_retired[0]
    assert not Lead.objects.waiting().exists()
    for team in teams:
        replay(team)
    nothing_lost_nothing_twice()


def test_changes_to_reps_of_many_teams_and_their_turns_never_deadlock():
    teams = [make_team(reps=1) for _ in range(3)]
    shared = [make_member(team=teams[0]).rep for _ in range(2)]
    for team in teams[1:]:
        for rep in shared:
            make_member(team=team, rep=rep)
    sources = [make_source(team=team) for team in teams]
    before = scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")

    def work(number):
        if number < 4:
            for turn in range(6):
                with transaction.atomic():
                    members.set_caps(
                        rep=shared[(number + turn) % 2], day_cap=30 + turn, week_cap=50, open_cap=None, zone="UTC"
                    )
            return []
        return [take_in(sources[(number + turn) % 3]) for turn in range(4)]

    assert not faults(at_once(24, work))
    sweep_teams()
    for team in teams:
        replay(team)
    assert scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == before
    assert not Lead.objects.waiting().exists()
    nothing_lost_nothing_twice()
