"""A person asks for certain leads while sweeps and new arrivals take turns: nothing goes twice, nothing deadlocks."""

import pytest
from django.db import DatabaseError, connection, transaction

from routing import leads
from routing.models import Assignment, Lead, Membership
from routing.sweep import assign_asked_for, sweep_team
from routing.turns import take_turns
from tests.make import make_lead, make_source, make_team
from tests.races.controls import until_seen
from tests.races.crowd import at_once, faults, scalar, second_connection, take_in, turnstile_held
from tests.races.replay import nothing_lost_nothing_twice, replay

pytestmark = pytest.mark.django_db(transaction=True)


def test_control_reading_what_waits_and_assigning_it_then_gives_leads_to_two_reps():
    """Two programs read the same waiting leads; only the constraint keeps the second from assigning them again."""

    def attempt():
        team = make_team(reps=2)
        member = Membership.objects.filter(team=team).earliest("pk")
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO routing_roster (team_id, digest, candidates, skipped) VALUES (%s, '', '{}', '{}')",
                [team.pk],
            )
            cursor.execute("CREATE SEQUENCE IF NOT EXISTS control_turn")
        for _ in range(10):
            make_lead(team=team)

        def work(number):
            refused = 0
            for lead in list(Lead.objects.waiting().filter(team=team).order_by("pk")):
                try:
                    with transaction.atomic(), connection.cursor() as cursor:
                        cursor.execute(ASSIGN, [lead.pk, member.pk])
                except DatabaseError:
                    refused += 1
            return refused

        return {"leads": 10, "assigned_again_but_for_the_constraint": sum(at_once(4, work))}

    until_seen(
        attempt,
        lambda seen: seen["assigned_again_but_for_the_constraint"],
        "read what waits, then assign (4 clients)",
    )


ASSIGN = """
    WITH given AS (UPDATE routing_lead SET status = 'assigned', first_assigned_at = now() WHERE id = %s RETURNING id)
    INSERT INTO routing_assignment (lead_id, membership_id, team_id, turn, roster_id, lag_before, lag_after,
                                    assigned_at)
    SELECT given.id, m.id, m.team_id, nextval('control_turn'), r.id, 0, 0, now()
      FROM given, routing_membership m JOIN routing_roster r USING (team_id) WHERE m.id = %s
"""


def test_leads_asked_for_are_taken_once_among_sweeps_and_arrivals():
    team = make_team(weights=(3, 2, 1))
    source = make_source(team=team)
    waiting = [make_lead(team=team).pk for _ in range(120)]

    def work(number):
        if number % 3 == 0:
            return [assign_asked_for(team_id=team.pk, lead_ids=waiting[at : at + 7]) for at in range(number, 120, 30)]
        if number % 3 == 1:
            return [take_turns(team_id=team.pk, most=5) for _ in range(4)]
        return [take_in(source) for _ in range(3)]

    before = scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert not faults(at_once(30, work))
    sweep_team(team_id=team.pk)
    assert Lead.objects.count() == 150 and not Lead.objects.waiting().exists()
    replayed = replay(team)
    assert replayed.turns == 150 and replayed.worst < 1
    assert scalar("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == before
    nothing_lost_nothing_twice()


def test_leads_asked_for_may_go_before_older_ones_and_a_held_one_is_left_to_its_holder():
    team = make_team(reps=2)
    waiting = [make_lead(team=team).pk for _ in range(5)]
    with second_connection() as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT id FROM routing_lead WHERE id = %s FOR NO KEY UPDATE", [waiting[4]])
        given = assign_asked_for(team_id=team.pk, lead_ids=[waiting[4], waiting[3]])
        assert given.taken == 1
        cursor.execute("ROLLBACK")
    assert list(Assignment.objects.values_list("lead_id", flat=True)) == [waiting[3]]
    sweep_team(team_id=team.pk)
    assert replay(team).turns == 5


def test_a_busy_turnstile_leaves_all_that_was_asked_for_waiting():
    team = make_team(reps=2)
    waiting = [make_lead(team=team).pk for _ in range(3)]
    with turnstile_held(team):
        assert assign_asked_for(team_id=team.pk, lead_ids=waiting).taken == 0
    assert Lead.objects.waiting().count() == 3


def test_no_newer_lead_overtakes_an_older_one_that_waits():
    team = make_team(weights=(2, 1))
    source = make_source(team=team)
    old = [make_lead(team=team).pk for _ in range(40)]
    assert not faults(at_once(30, lambda _: take_in(source)))
    sweep_team(team_id=team.pk)
    order = list(Assignment.objects.order_by("turn").values_list("lead_id", flat=True))
    assert order[:40] == old
    assert replay(team).turns == 70


def test_an_older_lead_is_passed_by_only_while_somebody_holds_it():
    team = make_team(reps=2)
    source = make_source(team=team)
    old = [make_lead(team=team).pk for _ in range(10)]
    with second_connection() as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT id FROM routing_lead WHERE id = %s FOR NO KEY UPDATE", [old[0]])
        assert not faults(at_once(10, lambda _: take_in(source)))
        cursor.execute("ROLLBACK")
    order = list(Assignment.objects.order_by("turn").values_list("lead_id", flat=True))
    assert order[:9] == old[1:] and old[0] not in order
    take_in(source)
    assert list(Assignment.objects.order_by("turn").values_list("lead_id", flat=True))[-2] == old[0]


def test_more_leads_than_one_call_takes_are_left_in_order_for_the_next():
    team = make_team(reps=3)
    old = [make_lead(team=team).pk for _ in range(25)]
    newest = make_lead(team=team)
    turn = take_turns(team_id=team.pk, lead_id=newest.pk, most=10)
    assert (turn.outcome, turn.taken, turn.more) == ("waiting", 10, True)
    assert not faults(at_once(8, lambda _: take_turns(team_id=team.pk, most=4)))
    sweep_team(team_id=team.pk)
    order = list(Assignment.objects.order_by("turn").values_list("lead_id", flat=True))
    assert order == [*old, newest.pk]


def test_closing_leads_that_wait_races_with_their_turns_and_each_ends_one_way():
    team = make_team(reps=3)
    waiting = [make_lead(team=team).pk for _ in range(60)]

    def work(number):
        if number % 2:
            return [take_turns(team_id=team.pk, most=4) for _ in range(4)]
        for at in range(number, 60, 12):
            with transaction.atomic():
                leads.close(lead_ids=waiting[at : at + 3])
        return []

    assert not faults(at_once(12, work))
    sweep_team(team_id=team.pk)
    for lead in Lead.objects.all():
        current = Assignment.objects.filter(lead=lead, ended_at=None).count()
        assert (lead.status, current) in {("assigned", 1), ("closed", 0)}
    assert Assignment.objects.values("lead").distinct().count() == Assignment.objects.count()
    replay(team)
    nothing_lost_nothing_twice()
