"""The database's schedules are those of the code, whatever stood there before."""

import datetime as dt

import pytest
from django.utils import timezone
from django.utils.module_loading import import_string
from django_q.models import Schedule

from config.schedules import SCHEDULES, Every, Synced, sync_schedules

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("task", [every.task for every in SCHEDULES.values()])
def test_every_schedule_names_a_task_that_exists(task: str) -> None:
    assert callable(import_string(task))


def test_what_is_missing_is_created_and_what_is_right_is_left_alone() -> None:
    assert sync_schedules() == Synced(created=len(SCHEDULES), changed=0, removed=0)
    later = timezone.now() + dt.timedelta(hours=1)
    Schedule.objects.update(next_run=later)
    assert sync_schedules() == Synced(created=0, changed=0, removed=0)
    assert set(Schedule.objects.values_list("next_run", flat=True)) == {later}


def test_what_was_changed_by_hand_is_put_right() -> None:
    sync_schedules({"a": Every(1, "config.tasks.beat")})
    Schedule.objects.update(args="hello", minutes=7, repeats=3, cluster="crm")
    assert sync_schedules({"a": Every(1, "config.tasks.beat")}) == Synced(created=0, changed=1, removed=0)
    row = Schedule.objects.get()
    assert (row.args, row.minutes, row.repeats, row.cluster) == (None, 1, -1, None)


def test_doubles_and_strangers_are_removed() -> None:
    for name in ("a", "a", "stranger"):
        Schedule.objects.create(name=name, func="nowhere.to_be_found")
    assert sync_schedules({"a": Every(1, "config.tasks.beat")}) == Synced(created=0, changed=1, removed=2)
    assert Schedule.objects.get().func == "config.tasks.beat"
