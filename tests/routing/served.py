"""A real gunicorn on a socket of its own, over the test's database, and ways to speak to it badly."""

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.database import database_url

PATIENCE_S = 60


@contextmanager
def gunicorn(**environment: str) -> Iterator[str]:
    """Serve Rota until the end of the block; yields the path of its socket."""
    with tempfile.TemporaryDirectory(prefix="rota") as folder:
        path = f"{folder}/http"
        words = [sys.executable, "-W", "ignore", "-m", "gunicorn", "config.wsgi", "--bind", f"unix:{path}"]
        process = subprocess.Popen(
            [*words, "--threads", "12", "--worker-tmp-dir", folder, "--no-control-socket", "--log-level", "critical"],
            env={**os.environ, "DATABASE_URL": database_url(), **environment},
            cwd=Path(__file__).resolve().parents[2],
        )
        try:
            until = time.monotonic() + PATIENCE_S
            while not answers(path):
                assert process.poll() is None and time.monotonic() < until, "gunicorn did not start"
                time.sleep(0.1)
            yield path
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def answers(path: str) -> bool:
    try:
        return b"404" in raw(path, b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    except OSError:
        return False


def raw(path: str, request: bytes, *, then: str = "wait") -> bytes:
    """Send these very bytes and return all that comes back; `then="stop"` ends our side before the answer."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(path)
        client.sendall(request)
        if then == "stop":
            client.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := client.recv(65_536):
            answer += chunk
        return answer


class Connection(http.client.HTTPConnection):
    """HTTP over a socket file."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self.path)
