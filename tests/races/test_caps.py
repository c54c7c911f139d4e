"""A rep with a cap never gets more than the cap allows, in whatever team the leads arrive."""

import threading

import pytest
from django.db import connection, transaction
from django.utils import timezone
from django_q.models import OrmQ

from routing import leads, members
from routing.models import Assignment, Lead, Membership, RepCount, Team
from routing.sweep import sweep_team
from tests.make import make_lead, make_member, make_rep, make_source, make_team
from tests.races.controls import until_seen
from tests.races.crowd import at_once, beside, faults, scalar, take_in, until
from tests.races.replay import caps_held, nothing_lost_nothing_twice, replay

pytestmark = pytest.mark.django_db(transaction=True)

GIVEN = "SELECT count(*) FROM routing_assignment WHERE membership_id = ANY (%s) AND ended_at IS NULL"


def two_teams_sharing(rep, *, others: int = 2) -> list[Team]:
    teams = [make_team(reps=others), make_team(reps=others)]
    for team in teams:
        make_member(team=team, rep=rep)
    return teams


def test_control_counting_first_and_assigning_then_exceeds_a_cap():
    """Each team under its own turnstile, as ours, but the cap read from the assignments without a lock."""
    cap = 5

    def attempt():
        rep = make_rep()
        teams = two_teams_sharing(rep, others=0)
        mine = list(Membership.objects.filter(rep=rep).values_list("pk", flat=True))

        def work(number):
            team, lead = teams[number % 2], make_lead(team=teams[number % 2])
            with transaction.atomic(), connection.cursor() as cursor:
                members.hold_turnstiles(team_ids=[team.pk])
                cursor.execute(GIVEN, [mine])
                if cursor.fetchone()[0] < cap:
                    cursor.execute(GIVE, [team.pk, lead.pk, team.pk, team.pk])

        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO routing_roster (team_id, digest, candidates, skipped)"
                " SELECT unnest(%s::bigint[]), 'control', '{}', '{}'",
                [[team.pk for team in teams]],
            )
        at_once(20, work)
        given = scalar(GIVEN, mine)
        return {"leads": 20, "cap": cap, "given": given}

    until_seen(
        attempt,
        lambda seen: seen["given"] > cap,
        "count, then assign (20 clients, 2 teams)",
        rounds=50,
    )


GIVE = """
    INSERT INTO routing_assignment (lead_id, membership_id, team_id, turn, roster_id, lag_before, lag_after,
                                    assigned_at)
    SELECT l.id, m.id, m.team_id, 1 + (SELECT count(*) FROM routing_assignment WHERE team_id = %s), r.id, 0, 0, now()
      FROM routing_lead l JOIN routing_membership m USING (team_id) JOIN routing_roster r USING (team_id)
     WHERE l.id = %s AND m.team_id = %s AND r.team_id = %s
"""


@pytest.mark.parametrize("caps", [{"day_cap": 7}, {"week_cap": 5}, {"open_cap": 4}, {"day_cap": 9, "open_cap": 6}])
def test_a_rep_of_two_teams_never_gets_more_than_the_cap(caps):
    rep = make_rep(**caps)
    teams = two_teams_sharing(rep)
    sources = [make_source(team=team) for team in teams]
    assert not faults(at_once(30, lambda number: [take_in(sources[(number + turn) % 2]) for turn in range(3)]))
    for team in teams:
        sweep_team(team_id=team.pk)
        assert replay(team).worst < 1.5, "candidates differ once the cap is reached"
    assert Assignment.objects.filter(membership__rep=rep).count() == min(caps.values())
    caps_held()
    nothing_lost_nothing_twice()
    assert not Lead.objects.waiting().exists(), "the others take the rest"


def test_two_teams_of_the_same_capped_reps_never_wait_for_each_other_in_a_circle():
    reps = [make_rep(day_cap=6, week_cap=8, open_cap=10, zone=zone) for zone in ("UTC", "Asia/Tokyo", "Pacific/Apia")]
    teams = [make_team(), make_team(), make_team()]
    for number, team in enumerate(teams):
        for rep in reps[number:] + reps[:number]:
            make_member(team=team, rep=rep)
    sources = [make_source(team=team) for team in teams]
    before = scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert not faults(at_once(30, lambda number: [take_in(sources[(number + turn) % 3]) for turn in range(3)]))
    for team in teams:
        sweep_team(team_id=team.pk)
        replay(team)
    caps_held()
    assert Assignment.objects.count() == 18 and Lead.objects.waiting().count() == 90 - 18
    assert scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == before
    nothing_lost_nothing_twice()


def test_a_place_that_a_closed_lead_leaves_goes_to_the_oldest_that_waits():
    team = make_team()
    member = make_member(team=team, rep=make_rep(open_cap=3))
    waiting = [make_lead(team=team) for _ in range(6)]
    sweep_team(team_id=team.pk)
    assert Lead.objects.waiting().count() == 3
    OrmQ.objects.all().delete()
    with transaction.atomic():
        leads.close(lead_ids=[waiting[1].pk])
    assert asked_to_sweep(team), "the freed place is given out at once, not in a minute"
    source = make_source(team=team)
    assert not faults(at_once(10, lambda _: take_in(source))), "newer leads come just then"
    held = set(Assignment.objects.filter(membership=member, ended_at=None).values_list("lead_id", flat=True))
    assert held == {waiting[0].pk, waiting[2].pk, waiting[3].pk}
    caps_held()
    nothing_lost_nothing_twice()


def asked_to_sweep(team: Team) -> bool:
    tasks = [task.task for task in OrmQ.objects.all()]
    return any(task["func"] == "routing.tasks.sweep_team" and task["args"] == (team.pk,) for task in tasks)


def test_open_leads_stay_under_the_cap_while_others_close_them():
    rep = make_rep(open_cap=4)
    teams = two_teams_sharing(rep, others=0)
    sources = [make_source(team=team) for team in teams]
    mine = list(Membership.objects.filter(rep=rep).values_list("pk", flat=True))
    done = threading.Event()

    def watch():
        most = 0
        while not done.is_set():
            most = max(most, scalar(GIVEN, mine))
        return most

    def work(number):
        if number % 3:
            return [take_in(sources[(number + turn) % 2]) for turn in range(3)]
        for _ in range(3):
            held = list(Assignment.objects.filter(ended_at=None).values_list("lead_id", flat=True)[:2])
            with transaction.atomic():
                leads.close(lead_ids=held)
        return None

    with beside(watch) as watched:
        try:
            answers = at_once(24, work)
        finally:
            done.set()
    assert not faults(answers)
    assert 0 < watched[0] <= 4
    for team in teams:
        sweep_team(team_id=team.pk)
        replay(team)
    assert scalar(GIVEN, mine) == 4
    caps_held()


def test_a_cap_set_in_the_middle_of_a_burst_counts_what_went_before():
    rep = make_rep()
    teams = two_teams_sharing(rep)
    sources = [make_source(team=team) for team in teams]
    mine = list(Membership.objects.filter(rep=rep).values_list("pk", flat=True))
    given_when_set = []

    def work(number):
        if number:
            return [take_in(sources[(number + turn) % 2]) for turn in range(4)]
        until(lambda: scalar(GIVEN, mine) >= 5)
        with transaction.atomic():
            members.set_caps(rep=rep, day_cap=12, week_cap=None, open_cap=None, zone="UTC")
            given_when_set.append(scalar(GIVEN, mine))
        return None

    assert not faults(at_once(25, work))
    for team in teams:
        sweep_team(team_id=team.pk)
        replay(team)
    given = Assignment.objects.filter(membership__rep=rep, assigned_at__date=timezone.now().date()).count()
    assert given <= max(12, given_when_set[0])
    counted = RepCount.objects.get(rep=rep, kind="day", since=timezone.now().date()).count
    assert counted == given
    assert not Lead.objects.waiting().exists()
    nothing_lost_nothing_twice()
