"""The embedded Postgres survives what machines do to it: kills, races, half-made clusters, long paths."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from config.localpg import PROJECT, LocalPostgres, start_again
from config.pg_programs import LocalPostgresError, find_programs
from tests.config.living import until

START = """
import sys; from pathlib import Path
from config.localpg import FAST_AND_UNSAFE, LocalPostgres
print(LocalPostgres(Path(sys.argv[1]), settings=FAST_AND_UNSAFE).start())
"""


@pytest.fixture
def project() -> Iterator[Path]:
    """A project folder that the server's account can enter, unlike pytest's own; its server is stopped in the end."""
    with tempfile.TemporaryDirectory(prefix="rota-test-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        LocalPostgres(Path(folder)).stop()


def start_elsewhere(project: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", START, str(project)]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def postmaster(server: LocalPostgres) -> psutil.Process:
    return psutil.Process(int((server.data / "postmaster.pid").read_text().split()[0]))


def test_committed_rows_are_back_after_kill_9_even_if_another_program_got_the_pid(project: Path) -> None:
    server = LocalPostgres(project)
    with psycopg.connect(server.start()) as connection:
        connection.execute("create table kept as select generate_series(1, 1000)")
    postmaster(server).kill()
    lock = server.data / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n" + lock.read_text().split("\n", 1)[1])
    assert not start_again(LocalPostgres(project), "postgresql://elsewhere/rota")
    assert start_again(LocalPostgres(project), server.url())
    with psycopg.connect(server.url()) as connection:
        assert connection.execute("select count(*) from kept").fetchone() == (1000,)


def test_two_starts_at_once_after_an_interrupted_initdb_give_one_server(project: Path) -> None:
    first = start_elsewhere(project)
    home = project / "var" / "postgres"
    until(lambda: list(home.glob("data.new.*/base")))
    first.kill()
    first.communicate()
    assert not (home / "data").exists()
    both = [start_elsewhere(project), start_elsewhere(project)]
    answers = [one.communicate(timeout=60) for one in both]
    assert [one.returncode for one in both] == [0, 0], answers
    assert answers[0][0] == answers[1][0] != ""
    assert sorted(one.name for one in home.iterdir()) == ["data", "postgres.log"]


def test_a_path_too_long_for_a_socket_gets_a_private_one(project: Path) -> None:
    deep = project / ("a folder with a long name " * 4).strip()
    deep.mkdir()
    server = LocalPostgres(deep)
    url = server.start()
    try:
        assert server.socket.parent == Path("/tmp")
        assert server.socket.stat().st_mode & 0o777 == 0o700
        with psycopg.connect(url) as connection:
            assert connection.execute("select upper('äé')").fetchone() == ("ÄÉ",)
        server.socket.rename(moved := server.socket.with_suffix(".moved"))
        assert not server.answers()
        moved.rename(server.socket)
    finally:
        server.stop()
        shutil.rmtree(server.socket, ignore_errors=True)


def test_stop_says_whether_it_stopped_anything(project: Path) -> None:
    server = LocalPostgres(project)
    assert not server.stop()
    server.start()
    owner = psutil.Process(postmaster(server).pid).uids().real
    assert owner == (
        os.geteuid() or pwd.getpwnam(server.programs.account.pw_name if server.programs.account else "").pw_uid
    )
    assert server.stop()
    assert not server.answers()
    (server.data / "PG_VERSION").write_text("9\n")
    with pytest.raises(LocalPostgresError, match="made by Postgres 9"):
        server.start()
    (server.data / "PG_VERSION").write_text(f"{server.programs.version()}\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another account for the server")
def test_roots_closed_folders_stay_closed(project: Path) -> None:
    project.chmod(0o700)
    server = LocalPostgres(project)
    try:
        assert server.home.parent.parent == Path("/var/lib")
        with psycopg.connect(server.start()) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
        assert project.stat().st_mode & 0o777 == 0o700
    finally:
        server.stop()
        shutil.rmtree(server.home.parent)


def test_programs_named_by_hand_come_first_and_none_at_all_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("postgres", "initdb", "pg_ctl"):
        (tmp_path / name).touch()
    monkeypatch.setenv("PG_BINDIR", str(tmp_path))
    assert find_programs() == tmp_path
    monkeypatch.setenv("PG_BINDIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(LocalPostgresError, match="DATABASE_URL"):
        find_programs()


def test_a_set_url_is_printed_and_nothing_is_started(tmp_path: Path) -> None:
    began = time.monotonic()
    said = subprocess.run(
        [sys.executable, "-m", "config.localpg", "url"],
        cwd=PROJECT,
        env={**os.environ, "DATABASE_URL": "postgresql://nobody@nowhere.invalid/x"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "postgresql://nobody@nowhere.invalid/x\n"
    assert time.monotonic() - began < 10
