"""A queue's cluster goes on when its idle workers are killed, and is restarted when it stands still all the same."""

import signal
import sys
from pathlib import Path

import psutil
import pytest
from django.db import transaction
from django_q.models import OrmQ

from config.beats import Pulse
from config.management.commands.watch_queues import restart
from config.processes import Process, queue_processes
from crmsync.nudge import ask
from tests.config.living import PYTHON, child, gone, kill_9, running, supervised, until

pytestmark = pytest.mark.django_db(transaction=True)
WORK = ("manage.py", "work", "default")
STOCK = ("manage.py", "qcluster")
BEAT = "config.tasks.beat"


def beat_is_done(seconds: float = 30.0) -> None:
    ask(BEAT)
    until(lambda: not OrmQ.objects.exists(), seconds)


def forked(main: psutil.Process) -> list[psutil.Process]:
    """The cluster's processes below the main one: sentinel, two workers, monitor and pusher."""
    return until(lambda: len(found := main.children(recursive=True)) == 5 and found)


def workers(main: psutil.Process) -> list[psutil.Process]:
    """The sentinel starts its two workers first."""
    sentinel = main.children()[0]
    return sorted(sentinel.children(), key=lambda one: one.pid)[:2]


def test_killing_every_idle_worker_does_not_wedge_the_queue(tmp_path: Path) -> None:
    with running(PYTHON, *WORK, log=tmp_path / "log", Q_CLUSTER_NAME="default") as main:
        forked(main)
        beat_is_done()
        for worker in workers(main):
            kill_9(worker)
        beat_is_done()


def test_without_our_queue_the_same_kill_wedges_it(tmp_path: Path) -> None:
    with running(PYTHON, *STOCK, log=tmp_path / "log", Q_CLUSTER_NAME="default") as main:
        forked(main)
        beat_is_done()
        for worker in workers(main):
            kill_9(worker)
        with pytest.raises(AssertionError):
            beat_is_done(seconds=3)


def test_kill_9_of_the_main_process_leaves_no_worker_executing(tmp_path: Path) -> None:
    with running(PYTHON, *WORK, log=tmp_path / "log", Q_CLUSTER_NAME="default") as main:
        everything = forked(main)
        kill_9(main)
        until(lambda: gone(everything), seconds=10)


def test_a_queue_that_stands_still_is_found_and_its_cluster_restarted(tmp_path: Path) -> None:
    with supervised(queue_processes(PYTHON, ["default"], task_timeout=5), tmp_path) as main:
        cluster = until(lambda: child(main, *WORK))
        forked(cluster)
        beat_is_done()
        for worker in workers(cluster):
            worker.send_signal(signal.SIGSTOP)
        pulse = Pulse("default", stuck_after=10, moved_at=0)
        assert not pulse.look(now=1)
        assert pulse.look(now=12)
        restart(main, "default")
        fresh = until(lambda: (now := child(main, *WORK)) and now.pid != cluster.pid and now)
        forked(fresh)
        OrmQ.objects.all().delete()  # what the stopped workers held stays theirs until `retry` has passed
        beat_is_done()


def test_the_watch_kills_the_main_process_of_a_stuck_queue_and_no_other(tmp_path: Path) -> None:
    idle = (sys.executable, "-c", "import time; time.sleep(600)")
    watch = (sys.executable, "manage.py", "watch_queues", "--stuck-after", "0.3", "--every", "0.1", "--only", "default")
    table = [Process(queue, (*idle, "manage.py", "work", queue), 1) for queue in ("default", "crm")]
    with supervised([*table, Process("watch", watch, 1)], tmp_path) as main:
        stuck = until(lambda: child(main, *WORK))
        other = until(lambda: child(main, "manage.py", "work", "crm"))
        until(lambda: (now := child(main, *WORK)) and now.pid != stuck.pid)
        assert child(main, "manage.py", "work", "crm") == other


def test_a_queue_is_stuck_when_nothing_leaves_it_though_work_is_there() -> None:
    pulse = Pulse("default", stuck_after=10, moved_at=0)
    assert not pulse.look(now=1)
    assert OrmQ.objects.count() == 1  # the beat; nobody works here
    assert not pulse.look(now=11)
    assert pulse.look(now=11.1)
    assert OrmQ.objects.count() == 1


def test_a_queue_from_which_something_leaves_is_not_stuck_however_old_its_other_rows() -> None:
    pulse = Pulse("default", stuck_after=10, moved_at=0)
    pulse.look(now=1)
    ask(BEAT)
    pulse.look(now=2)
    OrmQ.objects.latest("pk").delete()
    assert not pulse.look(now=20)
    assert pulse.look(now=31)


def test_a_beat_in_a_coalesced_queue_is_that_queues_own_task() -> None:
    Pulse("crm", stuck_after=10, moved_at=0).look(now=1)
    with transaction.atomic():
        assert [row.func() for row in OrmQ.objects.filter(key="crm")] == ["crmsync.tasks.deliver"]
