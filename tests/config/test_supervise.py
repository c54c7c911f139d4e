"""What dies is started again, and what was killed leaves nothing behind: with real processes."""

import configparser
import sys
from pathlib import Path

import pytest

from config.processes import MARGIN_S, Process, Wanted, processes
from config.supervise import configuration, stop, supervisor
from tests.config.living import child, gone, kill_9, supervised, until

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)", "asleep")
PARENT = (
    sys.executable,
    "-c",
    "import os, time; from config.tether import tether_forks; tether_forks(); os.fork() and os.fork(); time.sleep(600)",
    "parent",
)


def wanted(sandbox_port: int | None) -> Wanted:
    return Wanted(sandbox_port, ("id", "secret"), "var/sandbox", queues=("default", "crm"), task_timeout=50)


def test_without_a_real_org_the_sandbox_org_is_started_too() -> None:
    assert [p.name for p in processes(wanted(8001))] == ["sandbox", "web", "default", "crm", "watch"]
    assert [p.name for p in processes(wanted(None))] == ["web", "default", "crm", "watch"]


def test_a_queue_may_finish_its_longest_task_before_it_is_killed() -> None:
    queues = [p for p in processes(wanted(None)) if p.name in ("default", "crm")]
    assert [p.stop_seconds for p in queues] == [50 + MARGIN_S] * 2
    assert [p.environment for p in queues] == [{"Q_CLUSTER_NAME": "default"}, {"Q_CLUSTER_NAME": "crm"}]


def test_only_the_main_process_of_a_queue_gets_the_stop_signal() -> None:
    parser = configparser.RawConfigParser()
    parser.read_string(configuration(processes(wanted(None)), supervisor=1))
    for name in ("default", "crm"):
        section = parser[f"program:{name}"]
        assert (section["stopsignal"], section["killasgroup"], section.get("stopasgroup")) == ("TERM", "true", None)
        assert section["autorestart"] == "true"  # q2's main process exits 0 when its sentinel dies


def test_signs_that_supervisor_would_expand_reach_the_command_as_they_are(tmp_path: Path) -> None:
    echo = Process("echo", (sys.executable, "-c", "import sys; print(sys.argv[1])", "100% a;b 'c"), 1)
    with supervised([echo], tmp_path):
        until(lambda: "100% a;b 'c" in (tmp_path / "echo.log").read_text() if (tmp_path / "echo.log").exists() else "")


def test_a_killed_process_is_started_again(tmp_path: Path) -> None:
    with supervised([Process("one", SLEEP, 1)], tmp_path) as main:
        first = until(lambda: child(main, *SLEEP))
        kill_9(first)
        second = until(lambda: (now := child(main, *SLEEP)) and now.pid != first.pid and now)
        assert second.pid != first.pid


def test_kill_9_of_the_supervisor_leaves_nothing_behind(tmp_path: Path) -> None:
    with supervised([Process("one", SLEEP, 1), Process("two", PARENT, 1)], tmp_path) as main:
        everything = until(lambda: len(found := main.children(recursive=True)) == 4 and found)
        until(lambda: child(main, *SLEEP) and child(main, *PARENT))
        kill_9(main)
        until(lambda: gone(everything), seconds=10)


def test_kill_9_of_a_main_process_takes_what_it_forked(tmp_path: Path) -> None:
    with supervised([Process("two", PARENT, 1)], tmp_path) as main:
        parent = until(lambda: child(main, *PARENT))
        forked = until(lambda: len(found := parent.children()) == 2 and found)
        kill_9(parent)
        until(lambda: gone(forked), seconds=10)


def test_down_stops_the_supervisor_and_all_it_started(tmp_path: Path) -> None:
    with supervised([Process("one", SLEEP, 1)], tmp_path) as main:
        asleep = until(lambda: child(main, *SLEEP))
        until(lambda: supervisor(tmp_path) == main)
        assert stop(tmp_path)
        assert gone([main, asleep])
    assert not stop(tmp_path)


@pytest.mark.parametrize("content", ["", "no number", "1", "99999999"])
def test_a_pid_file_that_names_somebody_else_is_not_believed(tmp_path: Path, content: str) -> None:
    (tmp_path / "supervisord.pid").write_text(content)
    assert supervisor(tmp_path) is None
    assert not stop(tmp_path)
