"""Tasks of the queue do what is due and may run twice or never."""

import pytest
from django.utils.module_loading import import_string
from django_q.models import OrmQ

from routing import tasks
from tests.make import make_lead, make_team
from tests.routing.rows import waiting

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_task_that_runs_twice_gives_out_nothing_twice():
    team = make_team(reps=1)
    make_lead(team=team)
    assert [tasks.sweep_team(team.pk)["taken"] for _ in range(2)] == [1, 0]


def test_a_task_for_a_team_that_is_not_there_does_nothing():
    assert tasks.sweep_team(10**9) == {"taken": 0, "busy": 0, "set_aside": 0, "failed": 0}


def test_what_routing_asks_the_queue_for_exists_and_carries_ids_only():
    team = make_team(reps=1)
    make_lead(team=team)
    for row in OrmQ.objects.all():
        assert callable(import_string(row.task["func"]))
        assert all(isinstance(word, int) for word in row.task["args"])
    assert OrmQ.objects.exists() and len(waiting(team)) == 1
