"""Joining, leaving, weights, hours and caps change the turns to come and never those that were."""

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.utils import timezone
from django_q.models import OrmQ

from routing import members
from routing.models import Membership, Rep, RepCount, Shift, Team
from tests.make import make_member, make_rep, make_team
from tests.routing.rows import give, members_of
from tests.routing.sessions import another_session

pytestmark = pytest.mark.django_db(transaction=True)


def asked() -> int:
    return OrmQ.objects.count()


def test_who_leaves_and_returns_keeps_the_lag_of_the_day_they_left():
    team = make_team(reps=3)
    give(team, 1)
    first = team.memberships.order_by("pk").first()
    assert first.lag < 0
    with transaction.atomic():
        assert members.set_active(memberships=Membership.objects.filter(pk=first.pk), active=False) == 1
    give(team, 10)
    with transaction.atomic():
        back = members.add_member(team=team, rep=first.rep, weight=7)
    assert (back.pk, back.lag, back.last_turn, back.weight, back.active) == (first.pk, first.lag, 1, 7, True)


def test_a_new_member_begins_with_no_lag():
    team = make_team(reps=2)
    give(team, 5)
    assert make_member(team=team).lag == 0


def test_a_new_weight_counts_from_now_and_what_is_owed_stays_owed():
    team = make_team(reps=2)
    give(team, 1)
    member = team.memberships.order_by("pk").first()
    with transaction.atomic():
        members.set_weight(membership=member, weight=3)
    after = Membership.objects.get(pk=member.pk)
    assert (after.weight, after.lag) == (3, member.lag)


def test_setting_what_is_already_so_changes_nothing():
    team = make_team(reps=2)
    with transaction.atomic():
        assert members.set_active(memberships=Membership.objects.filter(team=team), active=True) == 0


def test_retiring_reps_is_told_once_and_leaves_their_open_leads_theirs():
    team = make_team(reps=2)
    give(team, 2)
    reps = Rep.objects.filter(memberships__team=team)
    with transaction.atomic():
        assert members.retire_reps(reps=reps) == 2
        assert members.retire_reps(reps=reps) == 0
    assert {lead.status for lead in team.leads.all()} == {"assigned"}


def test_removing_a_cap_leaves_no_limit_and_setting_it_again_counts_afresh():
    team = make_team(reps=1)
    rep = Rep.objects.get()

    def cap(most):
        with transaction.atomic():
            members.set_caps(rep=rep, day_cap=most, week_cap=None, open_cap=None, zone="UTC")

    cap(2)
    assert len(give(team, 3)) == 2
    cap(None)
    assert len(give(team, 3)) == 3
    cap(6)
    assert RepCount.objects.get(rep=rep, kind="day").count == 6
    assert give(team, 3) == []


def test_shifts_are_replaced_as_a_whole():
    rep = make_rep()
    now = timezone.now()
    for hours in (1, 2):
        with transaction.atomic():
            members.set_shifts(rep=rep, ranges=[(now, now + timedelta(hours=hours))])
    assert [shift.during.upper for shift in Shift.objects.filter(rep=rep)] == [now + timedelta(hours=2)]


def test_a_part_of_the_same_members_is_the_same_row():
    team = make_team(reps=2)
    everyone = list(Membership.objects.filter(team=team))
    assert members.part_of(team=team, memberships=everyone) == members.part_of(team=team, memberships=everyone[::-1])


CHANGES = {
    "add_member": lambda team, member, rep: members.add_member(team=team, rep=make_rep()),
    "set_active": lambda team, member, rep: members.set_active(memberships=team.memberships.all(), active=False),
    "set_weight": lambda team, member, rep: members.set_weight(membership=member, weight=2),
    "retire_teams": lambda team, member, rep: members.retire_teams(teams=Team.objects.filter(pk=team.pk)),
    "retire_reps": lambda team, member, rep: members.retire_reps(reps=Rep.objects.filter(pk=rep.pk)),
    "set_outside_hours": lambda team, member, rep: members.set_outside_hours(team=team, outside_hours="ignore"),
    "set_caps": lambda team, member, rep: members.set_caps(
        rep=rep, day_cap=1, week_cap=None, open_cap=None, zone="UTC"
    ),
    "set_shifts": lambda team, member, rep: members.set_shifts(rep=rep, ranges=[]),
}
WELCOME = {"add_member", "set_active", "set_outside_hours", "set_caps", "set_shifts"}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_refused_outside_a_transaction(change):
    team = make_team(reps=1)
    member = team.memberships.get()
    with pytest.raises(TransactionManagementError):
        CHANGES[change](team, member, member.rep)


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_takes_the_turnstile_and_waits_for_a_turn_under_way(change):
    team = make_team(reps=1)
    member = team.memberships.get()
    with another_session() as other:
        other.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [team.pk])
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")
        with pytest.raises(Exception, match="lock timeout"), transaction.atomic():
            CHANGES[change](team, member, member.rep)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_lets_leads_go_asks_for_a_sweep_once_committed(change):
    team = make_team(reps=1)
    member = team.memberships.get()
    before = asked()
    with transaction.atomic():
        CHANGES[change](team, member, member.rep)
        assert asked() == before
    plans = change == "add_member"  # a new member's shifts are planned, too
    assert asked() - before == (1 if change in WELCOME else 0) + plans


def test_a_change_rolled_back_asks_for_nothing():
    team = make_team(reps=1)
    before = asked()
    with transaction.atomic():
        members.set_outside_hours(team=team, outside_hours="wait")
        transaction.set_rollback(True)
    assert asked() == before


def test_a_rep_of_several_teams_waits_for_all_their_turnstiles():
    rep = make_rep()
    teams = [make_team(), make_team()]
    for team in teams:
        make_member(team=team, rep=rep)
    with another_session() as other:
        other.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [teams[1].pk])
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")
        with pytest.raises(Exception, match="lock timeout"), transaction.atomic():
            members.retire_reps(reps=Rep.objects.filter(pk=rep.pk))
    assert members_of(teams[0])
