"""Agents for tests: a token, and requests through Django's client or to a real server."""

import itertools
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import transaction
from django.test import Client

from outreach.models import Agent
from outreach.moves.agents import make_agent
from tests.config.living import free_port
from tests.database import database_url

_numbers = itertools.count(1)
ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 60


class Asking:
    """An agent with its token. `post` answers with status and body; each call has a fresh key unless one is given."""

    def __init__(self, *, may_mail: bool = True, may_leads: bool = True, name: str = "") -> None:
        with transaction.atomic():
            name = name or f"agent {next(_numbers)}"
            self.agent, self.token = make_agent(name=name, may_mail=may_mail, may_leads=may_leads, by="Pat")
        self.client = Client(headers={"Authorization": f"Bearer {self.token}"})

    @property
    def worker(self) -> str:
        return self.agent.worker

    def answer(self, path: str, *, key: str = "", **body: Any) -> Any:
        headers = {"Idempotency-Key": key or f"key {next(_numbers)}"}
        return self.client.post(f"/api/{path}", body, content_type="application/json", headers=headers)

    def post(self, path: str, *, key: str = "", **body: Any) -> tuple[int, Any]:
        answer = self.answer(path, key=key, **body)
        return answer.status_code, answer.json()

    def get(self, path: str, *, key: str = "", **body: Any) -> Any:
        """The body of an answer that must be good."""
        code, answer = self.post(path, key=key, **body)
        assert code == 200, answer
        return answer


def refreshed(agent: Agent) -> Agent:
    return Agent.objects.get(pk=agent.pk)


@contextmanager
def served(**environment: str) -> Iterator[str]:
    """A real gunicorn with two processes over the test's database; yields its address."""
    port = free_port()
    words = [sys.executable, "-W", "ignore", "-m", "gunicorn", "config.wsgi", "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        [*words, "--workers", "2", "--threads", "4", "--no-control-socket", "--log-level", "critical"],
        env={**os.environ, "DATABASE_URL": database_url(), **environment},
        cwd=ROOT,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + PATIENCE_S
        while not answers(f"{url}/healthz"):
            assert process.poll() is None and time.monotonic() < until, "gunicorn did not start"
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


@contextmanager
def example(url: str, token: str, *words: object, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The client of the README as a process; its stdout goes to `log`."""
    with open(log, "ab") as out:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "docs" / "example_agent.py"), url, *map(str, words)],
            env={"ROTA_TOKEN": token, "PATH": os.environ["PATH"]},
            stdout=out,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
