"""Read settings from the environment, and report everything that is wrong in one list.

Every variable has its line in `.env.example`; a test compares the two. A value that is missing or malformed does not
stop at the first: `Environment.check()` raises one `ImproperlyConfigured` that names them all.
"""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

API_NAME = r"[A-Za-z][A-Za-z0-9_]{0,79}"
POSTGRES = ("postgres", "postgresql", "psql", "pgsql")


def dotenv() -> Path:
    """The file with settings beside the environment: `.env`, or what ENV_FILE names."""
    return Path(os.environ.get("ENV_FILE") or Path(__file__).resolve().parent.parent / ".env")


class Environment:
    """The process environment and an optional `.env` file; the process environment wins."""

    def __init__(self, dotenv: Path) -> None:
        self.env = environ.Env()
        self.problems: list[str] = []
        self.names: list[str] = []
        if dotenv.exists():
            self.env.read_env(dotenv)

    def check(self) -> None:
        """Raise ImproperlyConfigured with every problem seen so far; do nothing where there is none."""
        if self.problems:
            lines = "".join(f"\n  - {problem}" for problem in self.problems)
            raise ImproperlyConfigured(f"Rota cannot start with these settings:{lines}\nSee .env.example.")

    def _read(self, name: str, default: Any, parse: Callable[..., Any], wanted: str, fallback: Any) -> Any:
        self.names.append(name)
        raw = self.env.ENVIRON.get(name, "")
        if raw == "":
            if default is None:
                self.problems.append(f"{name} is not set.")
                return fallback
            return default
        try:
            return parse(name)
        except (ValueError, ImproperlyConfigured):
            self.problems.append(f"{name} should be {wanted}.")
            return fallback

    def text(self, name: str, default: str | None = None) -> str:
        value: str = self._read(name, default, self.env.str, "a text", "")
        return value

    def shaped(self, name: str, default: str, *, shape: str, wanted: str) -> str:
        """A text of which all is of this shape, a regular expression; `wanted` says what that is."""

        def parse(key: str) -> str:
            value = str(self.env.str(key)).strip()
            if not re.fullmatch(shape, value):
                raise ValueError
            return value

        value: str = self._read(name, default, parse, wanted, default)
        return value

    def field(self, name: str, default: str = "") -> str:
        """The API name of one of the org's fields."""
        return self.shaped(
            name, default, shape=API_NAME, wanted="the API name of a field such as Budget__c: letters, digits and _"
        )

    def words(self, name: str, default: list[str] | None = None) -> list[str]:
        """A comma-separated list."""
        value: list[str] = self._read(name, default, self.env.list, "a comma-separated list", [])
        return [word.strip() for word in value if word.strip()]

    def pairs(self, name: str, *, values: Sequence[str]) -> dict[str, str]:
        """A comma-separated list of name=value, each value one of `values`; none where it is unset."""
        found: dict[str, str] = {}
        for word in self.words(name, []):
            key, _, value = (part.strip() for part in word.partition("="))
            if not key or value not in values:
                self.problems.append(f"{name} has '{word}'; it should be name=value, the value {' or '.join(values)}.")
            if key in found:
                self.problems.append(f"{name} names {key} twice.")
            found[key] = value
        return found

    def in_order(self, name: str, value: int, most_name: str, most: int) -> None:
        """Of two settings, the first is at most the second."""
        if value > most:
            self.problems.append(f"{name} is {value}, above {most_name}, which is {most}.")

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false, in words; django-environ takes any other word for false, this refuses it."""

        def parse(key: str) -> bool:
            word = self.env.str(key).lower()
            if word not in ("true", "false", "1", "0", "yes", "no", "on", "off"):
                raise ValueError
            return word in ("true", "1", "yes", "on")

        return bool(self._read(name, default, parse, "true or false", False))

    def number(self, name: str, default: int | None = None, *, least: int, most: int) -> int:
        """A whole number between `least` and `most`, both included."""
        value: int = self._read(name, default, self.env.int, "a whole number", least)
        if not least <= value <= most:
            self.problems.append(f"{name} is {value}; it should be from {least} to {most}.")
        return value

    def postgres(self, name: str) -> dict[str, Any]:
        """A Postgres URL as Django's DATABASES entry."""
        url = self.text(name)
        scheme = urlsplit(url).scheme if url else POSTGRES[0]
        if scheme not in POSTGRES:
            self.problems.append(
                f"{name} names a {scheme or 'scheme-less'} database. Rota needs PostgreSQL 15 or newer: turns are a "
                "server-side function under an advisory lock and its claims use FOR UPDATE SKIP LOCKED, which no other "
                "database offers in this form."
            )
            return {}
        if not url:
            return {}
        database = dict(self.env.db_url_config(url))
        database["HOST"] = unquote(database.get("HOST") or "")  # a socket folder comes percent-encoded
        return database
