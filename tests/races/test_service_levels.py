"""A rep works a lead at the moment its time is over: it is moved, or it is worked, and it is never lost or doubled."""

import threading
from typing import Any

import pytest
from django.db import connection, transaction

from routing import leads
from routing.models import Assignment, Lead, ServiceBreach
from routing.reassign import pass_on
from routing.service_levels import deal_with, keep, still_late
from tests.make import make_team
from tests.races.crowd import at_once, beside, faults, second_connection, until, waiting_for_a_lock
from tests.races.replay import nothing_lost_nothing_twice, replay
from tests.routing.test_service_levels import given, level

pytestmark = pytest.mark.django_db(transaction=True)


def test_control_looking_first_and_locking_then_takes_away_a_lead_that_was_just_worked() -> None:
    (turn,) = given(level(make_team(reps=2)))
    has_looked, was_worked = threading.Event(), threading.Event()

    def naive() -> bool:
        held = still_late(turn.pk, None)
        has_looked.set()
        assert held is not None and was_worked.wait(60)
        with transaction.atomic():
            return pass_on(assignment=held, by="naive", reason="late")

    with beside(naive) as moved:
        assert has_looked.wait(60)
        assert leads.mark_worked(lead_ids=[turn.lead_id], by="Kim") == 1
        was_worked.set()
    assert moved == [True]
    assert Assignment.objects.current().get() != turn, "Kim had worked it"


def test_a_lead_that_is_being_worked_is_not_taken_away() -> None:
    (turn,) = given(level(make_team(reps=2)))
    with second_connection() as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(
            "UPDATE routing_lead SET first_worked_at = now(), worked_by = 'Kim' WHERE id = %s", [turn.lead_id]
        )
        assert deal_with(assignment_id=turn.pk) is None, "somebody holds it: theirs to settle"
        cursor.execute("COMMIT")
    assert keep().late == 0
    assert Assignment.objects.current().get() == turn and not ServiceBreach.objects.exists()


def test_who_comes_while_it_is_moved_waits_and_is_noted_all_the_same() -> None:
    team = level(make_team(reps=2))
    (turn,) = given(team)
    with second_connection() as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT FROM routing_lead WHERE id = %s FOR NO KEY UPDATE", [turn.lead_id])
        with beside(lambda: leads.mark_worked(lead_ids=[turn.lead_id], by="Kim")) as marked:
            until(lambda: waiting_for_a_lock("transactionid"))
            cursor.execute("COMMIT")
    assert marked == [1] and Lead.objects.get().worked_by == "Kim"


@pytest.mark.parametrize("round_", range(3))
def test_many_who_work_and_many_who_look_leave_every_lead_worked_or_moved_once(round_: int) -> None:
    team = level(make_team(reps=4))
    turns = given(team, count=24)

    def work(number: int) -> Any:
        if number % 2:
            return keep()
        return [leads.mark_worked(lead_ids=[turn.lead_id], by="Kim") for turn in turns[number::8]]

    assert not faults(at_once(8, work))
    keep()
    moved = set(ServiceBreach.objects.filter(outcome="moved").values_list("lead_id", flat=True))
    for lead in Lead.objects.all():
        had = Assignment.objects.filter(lead=lead)
        assert had.count() == (2 if lead.pk in moved else 1)
        assert lead.first_worked_at or lead.pk in moved, "late leads that nobody worked are with somebody else"
        ended = had.filter(ended_at__isnull=False).first()
        if lead.first_worked_at and ended:
            assert ended.ended_at < lead.first_worked_at, "what was worked first is not moved afterwards"
    replay(team)
    nothing_lost_nothing_twice()
    connection.close()
