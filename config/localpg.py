"""Rota's own Postgres server, so that nobody needs to install one: started where it is missing, reused where it runs.

`python -m config.localpg start|stop|status|url [--test]`. `url` prints DATABASE_URL where that is set, in the
environment or in `.env`, and starts nothing. Clusters live under var/; the server is a daemon on a private socket and
outlives its starter. Everything happens under a file lock that dies with its holder; an interrupted initdb is never
taken for a cluster; "running" means that a connection answers and its data is ours, never that some process has a
certain pid.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import environ
import psycopg
from psycopg import sql

from config.environment import dotenv
from config.pg_programs import LocalPostgresError, Programs

PROJECT = Path(__file__).resolve().parent.parent
DATABASE = "rota"
LOCK_FILE = ".s.PGSQL.5432.lock"
NO_SUCH_PID = 99_999_999  # above any pid_max
SOCKET_PATH_MOST = 85  # bytes; a socket address holds 107, and Postgres adds its file name

# The test cluster may lose everything in a crash, and is a little faster for it.
FAST_AND_UNSAFE = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "max_connections": "500",  # race tests open two hundred at once, in two test processes
}
COMMON = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "max_connections": "150",
}


class LocalPostgres:
    """One cluster under the project's var folder."""

    def __init__(self, project: Path = PROJECT, name: str = "postgres", settings: dict[str, str] | None = None) -> None:
        self.project = project.resolve()
        self.var = self.project / "var"
        self.settings = settings or {}
        self.lock_file = self.var / f".{name}.lock"
        with self._alone():
            self.programs = Programs(self.var / name)
            self.home = self.programs.move_within_reach(self.project, self.var / name)
        self.data, self.log = self.home / "data", self.home / "postgres.log"
        self.socket = self._socket_folder()

    def start(self, seconds: float = 60) -> str:
        """Start the server unless it runs, make sure the database exists, return its URL. Waits `seconds` at most."""
        with self._alone():
            if not self._readable(self.data / "PG_VERSION"):
                self._initdb()
            if not self.answers():
                self._check_version()
                if self._postmaster() is None:
                    self._disown_dead_locks()
                    self._launch(seconds)
                self._wait(seconds)
            with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
                if not connection.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone():
                    connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
            return self.url()

    def stop(self) -> bool:
        """Stop the server; False where it was not running."""
        with self._alone():
            if self._postmaster() is None:
                return False
            self.programs.run("pg_ctl", "stop", "-w", "-m", "fast", "-t", "60", "-D", self.data)
            return True

    def answers(self) -> bool:
        """Whether a server answers at our socket and its data folder is ours."""
        try:
            with psycopg.connect(self.url("postgres"), connect_timeout=3) as connection:
                row = connection.execute("show data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return row is not None and os.path.realpath(row[0]) == os.path.realpath(self.data)

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://postgres@{quote(str(self.socket), safe='')}/{database}"

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        self.var.mkdir(parents=True, exist_ok=True)
        with open(self.lock_file, "w") as held:  # not inherited by the server; freed if we die
            fcntl.flock(held, fcntl.LOCK_EX)
            yield

    def _readable(self, path: Path) -> bool:
        try:
            return path.exists()
        except PermissionError:
            raise LocalPostgresError(
                f"{self.home} belongs to another user. Run Rota as that user or in your own clone, or set DATABASE_URL."
            ) from None

    def _socket_folder(self) -> Path:
        """The data folder itself (mode 700) where its path fits a socket address, else a private one in /tmp."""
        if len(os.fsencode(self.data)) <= SOCKET_PATH_MOST and re.fullmatch(r"[\w./+-]+", str(self.data), re.ASCII):
            return self.data
        owner = self.programs.account.pw_uid if self.programs.account else os.geteuid()
        return Path("/tmp") / f"rota-{owner}-{hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]}"

    def _postmaster(self) -> int | None:
        """The pid in postmaster.pid if that is a live Postgres: not a zombie, nor another program given that pid."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
            found = re.search(r"\((.*)\) (\S)", Path(f"/proc/{pid}/stat").read_text())
        except (OSError, ValueError):
            return None
        return pid if found and "postgres" in found[1] and found[2] not in "ZX" else None

    def _disown_dead_locks(self) -> None:
        """Let Postgres clear lock files of a dead server whose pid now belongs to a zombie or to another program.

        A pid that cannot exist is put there; the files are not deleted: Postgres then still checks, by the shared
        memory they name, that no worker of the dead server is alive.
        """
        for path in (self.data / "postmaster.pid", self.socket / LOCK_FILE):
            with contextlib.suppress(FileNotFoundError, ValueError):
                _, rest = path.read_text().split("\n", 1)
                path.write_text(f"{NO_SUCH_PID}\n{rest}")

    def _initdb(self) -> None:
        self.programs.give(self.home, 0o700)
        for half in self.home.glob("data.new.*"):
            shutil.rmtree(half, ignore_errors=True)
        new = self.home / f"data.new.{secrets.token_hex(4)}"  # renamed when whole; a killed initdb may go on in its own
        self.programs.give(new, 0o700)
        locale = ["--locale=C.UTF-8"]
        if self.programs.version() >= 17:  # the same order of text on every machine, and no system locale needed
            locale = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        common = ["--auth=trust", "-U", "postgres", "--encoding=UTF8", "--no-sync"]
        self.programs.run("initdb", "-D", new, *common, *locale)
        with open(new / "postgresql.conf", "a") as file:
            file.write("\ninclude_if_exists 'local.conf'\n")
        new.rename(self.data)

    def _check_version(self) -> None:
        have, want = int((self.data / "PG_VERSION").read_text()), self.programs.version()
        if have != want:
            raise LocalPostgresError(
                f"{self.data} was made by Postgres {have}; the server here is {want}. Dump it with the old one, or "
                f"move {self.home} away to start afresh."
            )

    def _launch(self, seconds: float) -> None:
        if self.socket != self.data:
            if self.socket.is_symlink():  # /tmp is open to others
                raise LocalPostgresError(f"{self.socket} is a link; remove it.")
            self.programs.give(self.socket, 0o700)
        # Written at every launch: a project that was moved works, and no path is quoted for a shell.
        conf = {**COMMON, "unix_socket_directories": str(self.socket), **self.settings}
        (self.data / "local.conf").write_text("".join(f"{key} = '{value}'\n" for key, value in conf.items()))
        (self.data / "local.conf").chmod(0o644)
        start = ("start", "-w", "-t", str(int(seconds)), "-D", self.data, "-l", self.log)
        for _ in range(20):  # the workers of a killed server outlive it by a moment
            if self.programs.run("pg_ctl", *start, check=False).returncode == 0:
                return
            time.sleep(0.2)
        raise LocalPostgresError(f"Postgres did not start.{self._log_tail()}")

    def _wait(self, seconds: float) -> None:
        """Wait for a server that somebody started, be it in the middle of its crash recovery."""
        deadline = time.monotonic() + seconds
        while not self.answers():
            if time.monotonic() > deadline or self._postmaster() is None:
                raise LocalPostgresError(f"Postgres does not answer at {self.socket}.{self._log_tail()}")
            time.sleep(0.1)

    def _log_tail(self) -> str:
        text = self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""
        return f"\n--- end of {self.log}\n{text}"


def cluster(test: bool = False) -> LocalPostgres:
    """The project's cluster, or the one its tests use."""
    return LocalPostgres(name="postgres-test", settings=FAST_AND_UNSAFE) if test else LocalPostgres()


def database_url(test: bool = False) -> str:
    """DATABASE_URL where it is set, in the environment or (not for tests) in `.env`; else the embedded server's."""
    if not test and dotenv().exists():
        environ.Env.read_env(dotenv())
    return os.environ.get("DATABASE_URL") or cluster(test).start()


def start_again(server: LocalPostgres, url: str) -> bool:
    """Start a server that was killed, if it is the one this URL names; False where somebody else's server is used."""
    return server.url() == url and bool(server.start())


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m config.localpg", description="Rota's embedded Postgres.")
    parser.add_argument("action", choices=["start", "stop", "status", "url"])
    parser.add_argument("--test", action="store_true", help="the cluster of the tests, fast and unsafe")
    asked = parser.parse_args(words)
    try:
        match asked.action:
            case "url":
                print(database_url(asked.test))
            case "start":
                print(cluster(asked.test).start())
            case "stop":
                print("stopped" if cluster(asked.test).stop() else "was not running")
            case "status":
                running = cluster(asked.test).answers()
                print("running" if running else "not running")
                return 0 if running else 1
    except LocalPostgresError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
