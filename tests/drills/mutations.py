"""Put each known fault into a copy of the source and see the test that is there for it turn red.

About three minutes, the same with --short: a test run for each fault, and one without any that must be green.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from django.db import connection

from tests.drills._mutants import MUTANTS, ROOT

Say = Callable[[str], None]
LEFT_OUT = shutil.ignore_patterns("var", ".venv", ".git", "node_modules", "__pycache__", ".*_cache", ".env")
SHARED, OWN = f"rota_mutants_{os.getpid()}", f"rota_mutant_{os.getpid()}"
GREEN, RED = 0, 1
"""Exit codes of pytest; any other means that no test was run."""


def run(*, short: bool, seed: int, say: Say) -> dict[str, Any]:
    """Do it and return the figures in the form of every drill."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rota-mutants-") as folder:
        copy = Path(folder) / "rota"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
        try:
            say(f"{len(MUTANTS)} tests without any fault ...")
            code, told = pytest(copy, *dict.fromkeys(mutant.test for mutant in MUTANTS))
            checks = {"without any fault": check(code, GREEN, told)}
            for mutant in MUTANTS:
                (copy / mutant.file).write_text(mutant.source())
                code, told = pytest(copy, mutant.test, own_database=mutant.file.endswith(".sql"))
                checks[mutant.name] = check(code, RED, told)
                say(f"{mutant.name}: {checks[mutant.name]['value']}")
                shutil.copy(ROOT / mutant.file, copy / mutant.file)
        finally:
            drop_databases()
    return {
        "drill": "mutations",
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "checks": checks,
        "ok": all(one["ok"] for one in checks.values()),
    }


def pytest(copy: Path, *tests: str, own_database: bool = False) -> tuple[int, str]:
    """Run these tests of the copy; return pytest's exit code and the end of what it said.

    All share one database, but for a fault that is in the database itself.
    """
    database = OWN if own_database else SHARED
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n0",
        "-q",
        "--create-db" if own_database else "--reuse-db",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("EMAIL_", "CRM_"))}
    environment |= {"DATABASE_URL": database_url(database), "ENV_FILE": os.devnull, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr)[-1_000:]


def check(code: int, wanted: int, told: str) -> dict[str, Any]:
    value = {GREEN: "green", RED: "red"}.get(code, f"no test was run: {told}")
    return {"value": value, "limit": "green" if wanted == GREEN else "red", "ok": code == wanted}


def database_url(name: str) -> str:
    """A database of this drill on the same server; pytest puts `test_` before its name."""
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()


def drop_databases() -> None:
    given = connection.settings_dict
    login = {"host": given["HOST"], "port": given["PORT"], "user": given["USER"], "password": given["PASSWORD"]}
    server = {key: value for key, value in login.items() if value} | {"dbname": given["NAME"], "autocommit": True}
    with psycopg.connect(**server) as admin:
        for name in (SHARED, OWN):
            admin.execute(f'DROP DATABASE IF EXISTS "test_{name}" WITH (FORCE)')
