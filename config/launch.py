"""What `./rota` does once its .venv stands: provide the database and the secret key, then become the command asked for.

Says everything on stderr, so that the last line of stdout belongs to the command.
"""

import contextlib
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from config import localpg, supervise
from config.pg_programs import LocalPostgresError
from crmsync.paths import CALLED_IN

PROJECT = localpg.PROJECT
PYTHON = sys.executable
LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
STEPS = {
    "lint": ("-m", "ruff", "check", "."),
    "format": ("-m", "ruff", "format", "--check", "."),
    "types": ("-m", "mypy", "--no-incremental"),  # its cache breaks on the classes that Django makes
    "import contracts": ("-c", LINT_IMPORTS),
    "migrations": ("manage.py", "makemigrations", "--check", "--dry-run"),
    "system checks": ("manage.py", "check"),
}


def main(words: list[str]) -> int:
    command, rest = words[0], words[1:]
    try:
        return COMMANDS[command](rest)
    except LocalPostgresError as error:
        say(f"error: {error}")
        return 1


def manage(*words: str) -> Callable[[list[str]], NoReturn]:
    """A command that is a manage.py command with the environment provided."""

    def command(rest: list[str]) -> NoReturn:
        provide()
        become("manage.py", *words, *rest)

    return command


def test(rest: list[str]) -> int:
    """Everything, stopping at the first failure; with arguments pytest alone."""
    provide_for_tests()
    for name, step in {} if rest else STEPS.items():
        say(f"{name} ...")
        if code := subprocess.run([PYTHON, *step]).returncode:
            say(f"{name} failed; the tests were not run.")
            return code
    become("-m", "pytest", "-n", "2", *rest)


def down(rest: list[str]) -> int:
    stopped = supervise.stop()
    say("stopped the server." if stopped else "no server was running.")
    for cluster in (localpg.cluster(), localpg.cluster(test=True)):
        if cluster.stop():
            say(f"stopped Postgres ({cluster.home}).")
    return 0


def provide() -> None:
    """Put DATABASE_URL and SECRET_KEY into the environment, where neither it nor `.env` has them."""
    os.environ["DATABASE_URL"] = localpg.database_url()  # has read .env
    if not os.environ.get("SECRET_KEY"):
        os.environ["SECRET_KEY"] = secret_key(PROJECT / "var" / "secret_key")


def provide_for_tests() -> None:
    """Tests run with the default settings, whatever this shell or `.env` says; only DATABASE_URL is taken from here."""
    for name in re.findall(r"^#? ?([A-Z][A-Z_0-9]+)=", (PROJECT / ".env.example").read_text(), re.MULTILINE):
        if name != "DATABASE_URL":
            os.environ.pop(name, None)
    os.environ.pop(CALLED_IN, None)
    os.environ["ENV_FILE"] = os.devnull
    os.environ["DATABASE_URL"] = localpg.database_url(test=True)
    os.environ["SECRET_KEY"] = secrets.token_urlsafe(50)


def secret_key(path: Path) -> str:
    """The key in that file, made once; whoever comes second takes the first one's."""
    path.parent.mkdir(exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    if not path.exists():
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
        with contextlib.suppress(FileExistsError):
            os.link(new, path)  # whole or not at all
        new.unlink()
    return path.read_text()


def become(*words: str) -> NoReturn:
    """Replace this process, so that signals and the exit code are the command's own."""
    sys.stdout.flush()
    os.execv(PYTHON, [PYTHON, *words])


def say(line: str) -> None:
    print(f"rota: {line}", file=sys.stderr, flush=True)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "up": manage("up"),
    "down": down,
    "demo": manage("demo"),
    "test": test,
    "check": manage("check", "--deploy", "--database", "default"),
    "bench": manage("bench"),
    "drill": manage("drill"),
    "manage": manage(),
}

if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
