"""Two senders of notices at the same moment: a rep is told of an assignment once."""

import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from outreach.flows.notices import send_notices
from outreach.models import Notice, NoticeMail
from outreach.moves.notices import begin_new
from routing.models import Assignment, Rep
from tests.make import make_team
from tests.outreach.relays import sink
from tests.outreach.test_notices import assigned, notices_at
from tests.races.crowd import at_once, faults

pytestmark = pytest.mark.django_db(transaction=True)


def test_control_reading_first_and_writing_then_tells_twice(settings: Any) -> None:
    notices_at(settings, 1)
    assigned(make_team(reps=1), 10)
    rep, both_have_read = Rep.objects.get(), threading.Barrier(2)

    def naive(_: int) -> list[int]:
        due = Assignment.objects.current().filter(membership__rep=rep, notices=None)
        ids = list(due.values_list("pk", flat=True))
        both_have_read.wait(60)
        with transaction.atomic():
            mail = NoticeMail.objects.create(rep=rep, worker="naive")
            Notice.objects.bulk_create(Notice(assignment_id=pk, mail=mail) for pk in ids)
        return ids

    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE outreach_notice DROP CONSTRAINT notice_once_per_assignment")
    try:
        told = at_once(2, naive)
        assert not faults(told) and len(told[0]) == len(told[1]) == 10, "both told of all ten"
    finally:
        Notice.objects.all().delete()
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE outreach_notice ADD CONSTRAINT notice_once_per_assignment UNIQUE (assignment_id)"
            )


def test_senders_that_begin_at_the_same_moment_have_different_assignments(settings: Any) -> None:
    notices_at(settings, 1)
    for _ in range(10):
        team = make_team(reps=1)
        turns = assigned(team, 60)
        rep = turns[0].membership.rep_id
        begun = at_once(4, lambda number, rep=rep: begin_new(rep_id=rep, worker=f"w{number}"))
        assert not faults(begun)
        told = [pk for one in begun if one for pk in one.assignments]
        assert len(told) == len(set(told)) >= 50
        assert Notice.objects.filter(assignment__team=team).count() == len(told)
    assert not NoticeMail.objects.filter(notices=None).exists(), "no mail without anything to tell"


def test_four_senders_at_once_tell_every_rep_of_every_lead_once(settings: Any, tmp_path: Path) -> None:
    team = make_team(reps=6)
    with sink(tmp_path) as relay:
        notices_at(settings, relay.port)
        turns = assigned(team, 120)
        done = at_once(4, lambda number: send_notices(worker=f"w{number}", job=f"job {number}"))
        assert not faults(done) and sum(one.told for one in done) == 120
        assert set(relay.deliveries().values()) == {1}
        assert sum(relay.addresses().values()) == NoticeMail.objects.count() == sum(one.sent for one in done)
    assert sorted(Notice.objects.values_list("assignment", flat=True)) == [turn.pk for turn in turns]
