"""Whatever fails between a lead's arrival and its turn, the lead is there: with one rep, or visibly waiting."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import psycopg.errors
import pytest
from django.db import DatabaseError, connection, transaction
from django_q.models import OrmQ

from routing import sweep
from routing.models import Assignment, InboundEvent, Lead, RepCount
from routing.sweep import sweep_team, sweep_teams
from routing.turns import TRIES, take_turns
from tests.database import database_url
from tests.make import make_email, make_lead, make_member, make_rep, make_source, make_team
from tests.races.controls import until_seen
from tests.races.crowd import (
    at_once,
    beside,
    faults,
    rows,
    second_connection,
    take_in,
    turnstile_held,
    until,
    waiting_for_a_lock,
)
from tests.races.replay import caps_held, nothing_lost_nothing_twice, replay

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]


class Broken(Exception):
    """The program failed here."""


def fail_after(fragment):
    """Let every statement with this fragment succeed, and the program fail just then."""

    def wrapper(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if fragment in sql:
            raise Broken
        return result

    return connection.execute_wrapper(wrapper)


def test_control_lead_and_turn_in_one_commit_lose_the_lead_with_the_turn():
    """What Rota does not do: the turn in the transaction that takes in the lead, so that its fault takes the lead."""

    def attempt():
        team = make_team(reps=2)

        def work(number):
            with transaction.atomic(), connection.cursor() as cursor:
                make_lead(team=team)
                cursor.execute("SET LOCAL lock_timeout = '50ms'")
                cursor.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [team.pk])

        with turnstile_held(team):
            answers = at_once(10, work)
        return {"leads": 10, "lost": 10 - Lead.objects.filter(team=team).count(), "faults": len(faults(answers))}

    until_seen(attempt, lambda seen: seen["lost"], "lead and turn in one commit, holder stalls (10 clients)")


def test_two_in_a_hundred_intakes_rolled_back_leave_nothing_behind():
    team = make_team(weights=(3, 2, 1))
    source = make_source(team=team)

    def work(number):
        answers = []
        for turn in range(5):
            if (number * 5 + turn) % 50 == 7:
                with pytest.raises(Broken), fail_after("INSERT INTO routing_lead "):
                    take_in(source)
            else:
                answers.append(take_in(source))
        return answers

    answers = at_once(30, work)
    assert not faults(answers)
    sweep_team(team_id=team.pk)
    answered = {answer.lead for each in answers for answer in each}
    assert len(answered) == 147 and set(Lead.objects.values_list("uid", flat=True)) == answered
    assert InboundEvent.objects.count() == 147
    assert replay(team).worst < 1
    nothing_lost_nothing_twice()


def test_turn_calls_cancelled_while_they_wait_or_hold_lose_nothing():
    team = make_team(reps=5)
    source = make_source(team=team)
    done, cancelled = threading.Event(), []

    def cancel():
        while not done.is_set() and len(cancelled) < 6:
            cancelled.extend(rows(CANCEL_ONE))

    def work(number):
        answers = []
        for _ in range(10):
            try:
                answers.append(take_in(source))
            except DatabaseError as fault:  # the next statement was hit: not answered, and the sender sends it again
                assert isinstance(fault.__cause__, psycopg.errors.QueryCanceled)
        return answers

    with beside(cancel):
        try:
            answers = at_once(30, work)
        finally:
            done.set()
    assert not faults(answers) and len(cancelled) == 6
    answered = {answer.lead for each in answers for answer in each}
    assert answered <= set(Lead.objects.values_list("uid", flat=True))
    sweep_team(team_id=team.pk)
    assert not Lead.objects.waiting().exists()
    assert replay(team).worst < 1
    nothing_lost_nothing_twice()


CANCEL_ONE = """
    SELECT pid FROM (SELECT pid FROM pg_stat_activity
                      WHERE datname = current_database() AND state = 'active'
                        AND starts_with(query, 'SELECT * FROM take_turns')
                      ORDER BY query_start LIMIT 1) AS turn
     WHERE pg_cancel_backend(pid)
"""


def test_a_holder_that_stalls_delays_nobody_for_long_and_the_sweep_takes_what_waited():
    team = make_team(reps=3)
    source = make_source(team=team)
    with turnstile_held(team):
        first = at_once(30, lambda _: take_in(source))
        assert {answer.outcome for answer in first} == {"waiting"}, "everybody was answered while the holder stalls"
        assert Lead.objects.waiting().count() == 30 and not Assignment.objects.exists()
        assert OrmQ.objects.exists(), "a sweep was asked for"
    sweep_team(team_id=team.pk)
    assert replay(team).turns == 30
    nothing_lost_nothing_twice()


def test_a_holder_that_stalls_two_seconds_in_the_middle_of_a_burst_costs_no_lead_and_no_turn():
    team = make_team(weights=(2, 1, 1))
    source = make_source(team=team)

    def work(number):
        if number:
            return [take_in(source) for _ in range(10)]
        until(lambda: Assignment.objects.count() >= 20)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s)), pg_sleep(2)", [team.pk])
        return []

    answers = at_once(30, work)
    assert not faults(answers)
    outcomes = [answer.outcome for each in answers for answer in each]
    assert "waiting" in outcomes and set(outcomes) <= {"waiting", "assigned"}
    sweep_team(team_id=team.pk)
    assert replay(team).turns == 290 and replay(team).worst < 1
    nothing_lost_nothing_twice()


@contextmanager
def child(source, email, where):
    environ = os.environ | {
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "TURN_WAIT_MS": "10000",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.races.child", source.slug, email, where],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("where", ["before", "in", "after"])
def test_a_program_killed_before_in_or_after_the_turn_leaves_a_lead_that_is_assigned_once(where):
    team = make_team(reps=2)
    source, email = make_source(team=team), make_email()
    with child(source, email, "before" if where == "before" else "after") as process, second_connection() as other:
        if where == "in":
            other.cursor().execute("BEGIN")
            other.cursor().execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [team.pk])
            until(waiting_for_a_lock)
        else:
            assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
        lead = Lead.objects.get(email=email)
        assert lead.status == ("assigned" if where == "after" else "waiting")
        if where == "in":  # the server does not know yet that nobody listens, and may take the turn all the same
            other.cursor().execute("ROLLBACK")
        sweep_team(team_id=team.pk)
    until(lambda: Assignment.objects.filter(lead=lead).count() == 1)
    assert replay(team).turns == 1
    nothing_lost_nothing_twice()


def test_a_sender_whose_request_was_killed_sends_again_and_learns_of_the_same_lead():
    team = make_team(reps=2)
    source, email = make_source(team=team), make_email()
    with child(source, email, "before") as process:
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGKILL)
    again = take_in(source, email=email)
    assert again.outcome == "touched" and Lead.objects.count() == 1
    sweep_team(team_id=team.pk)
    nothing_lost_nothing_twice()


@contextmanager
def counter_locked(rep):
    """Another transaction holds this rep's counter; it yields that transaction's cursor."""
    with second_connection() as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT id FROM routing_repcount WHERE rep_id = %s FOR NO KEY UPDATE", [rep.pk])
        yield cursor
        cursor.execute("ROLLBACK")


def cross(cursor, rep):
    """Want this counter too, against the order. On a machine that stalls the intruder may be the one that is
    stopped.
    """
    cursor.execute("SAVEPOINT crossing")
    with contextlib.suppress(DatabaseError):
        cursor.execute("SELECT id FROM routing_repcount WHERE rep_id = %s FOR NO KEY UPDATE", [rep.pk])
    cursor.execute("ROLLBACK TO SAVEPOINT crossing")


def two_capped_reps(team):
    reps = [make_rep(day_cap=50), make_rep(day_cap=50)]
    for rep in reps:
        make_member(team=team, rep=rep)
    make_lead(team=team)
    assert take_turns(team_id=team.pk).taken == 1 and RepCount.objects.count() == 2
    return reps


def test_three_deadlocks_in_a_row_leave_the_lead_waiting_and_the_sender_answered():
    """The intruder locks counters against the order: the second, then the first, again and again."""
    team = make_team()
    first, second = two_capped_reps(team)
    source = make_source(team=team)
    with counter_locked(second) as cursor, beside(lambda: take_in(source)) as answers:
        for _ in range(TRIES):
            until(lambda: answers or waiting_for_a_lock("transactionid"))
            cross(cursor, first)
    assert answers[0].outcome == "waiting"
    assert Lead.objects.waiting().count() == 1
    sweep_team(team_id=team.pk)
    assert not Lead.objects.waiting().exists() and replay(team).turns == 2
    caps_held()
    nothing_lost_nothing_twice()


def test_one_deadlock_is_tried_again_and_nobody_notices():
    team = make_team()
    first, second = two_capped_reps(team)
    source = make_source(team=team)
    with counter_locked(second) as cursor, beside(lambda: take_in(source)) as answers:
        until(lambda: waiting_for_a_lock("transactionid"))
        cross(cursor, first)
        cursor.execute("ROLLBACK")
    assert answers[0].outcome == "assigned"
    assert replay(team).turns == 2
    caps_held()
    nothing_lost_nothing_twice()


def test_a_counter_held_too_long_makes_the_team_busy_not_broken():
    team = make_team()
    first, _ = two_capped_reps(team)
    lead = make_lead(team=team)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '50ms'")
    with counter_locked(first):
        assert take_turns(team_id=team.pk, lead_id=lead.pk).outcome == "busy"
        assert sweep_team(team_id=team.pk).busy == 1
    assert sweep_team(team_id=team.pk).taken == 1
    connection.close()


@contextmanager
def poisoned(lead, condition="foreign_key_violation"):
    """Every turn that assigns this lead fails with this condition."""
    with connection.cursor() as cursor:
        cursor.execute(POISON.format(lead=lead.pk, condition=condition))
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION poison() CASCADE")


POISON = """
    CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.lead_id = {lead} THEN RAISE {condition} USING MESSAGE = 'not this one'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER poison BEFORE INSERT ON routing_assignment FOR EACH ROW EXECUTE FUNCTION poison();
"""


@pytest.mark.parametrize(
    "condition", ["foreign_key_violation", "unique_violation", "check_violation", "numeric_value_out_of_range"]
)
def test_a_lead_whose_turn_fails_is_set_aside_and_blocks_nobody(condition):
    team = make_team(reps=3)
    source = make_source(team=team)
    bad = make_lead(team=team)
    with poisoned(bad, condition):
        answers = at_once(10, lambda _: take_in(source))
        assert not faults(answers) and {answer.outcome for answer in answers} == {"waiting"}
        swept = sweep_team(team_id=team.pk)
        bad.refresh_from_db()
        assert bad.status == Lead.Status.SET_ASIDE and "not this one" in bad.set_aside_because
        assert (swept.taken, swept.set_aside) == (10, 1)
        assert take_in(source).outcome == "assigned", "the team goes on"
    assert replay(team).turns == 11
    nothing_lost_nothing_twice()


def test_a_team_whose_sweep_fails_does_not_keep_the_others_from_theirs():
    broken, well = make_team(reps=1), make_team(reps=1)
    bad, good = make_lead(team=broken), make_lead(team=well)
    with poisoned(bad, "internal_error"):
        sweep_teams()
    good.refresh_from_db()
    assert good.status == Lead.Status.ASSIGNED
    sweep_teams()
    bad.refresh_from_db()
    assert bad.status == Lead.Status.ASSIGNED


def test_a_stalled_holder_costs_a_sweep_of_single_turns_one_wait_not_one_for_each_lead(monkeypatch):
    team = make_team(reps=2)
    bad = make_lead(team=team)
    for _ in range(20):
        make_lead(team=team)
    with poisoned(bad):
        monkeypatch.setattr(sweep, "take_singly", _with_the_turnstile_held(team, sweep.take_singly))
        swept = sweep_team(team_id=team.pk)
    assert swept.taken == 0 and swept.set_aside == 0 and swept.busy == 1
    assert Lead.objects.waiting().count() == 21


def _with_the_turnstile_held(team, function):
    def held(**arguments):
        with turnstile_held(team):
            return function(**arguments)

    return held
