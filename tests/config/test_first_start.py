"""An empty database gets an administrator and, beside the sandbox org only, demo data; a person is told what to do."""

import base64
import contextlib
import re
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from pytest_django.fixtures import Settings
from standardwebhooks import Webhook

from config import first_start
from config.welcome import Greeting, wait_until_ready, welcome
from tests.config.living import free_port
from tests.make import make_team
from tests.outreach.relays import sink


@pytest.mark.django_db
def test_the_first_start_makes_one_administrator_and_says_the_password_once() -> None:
    first = first_start.prepare()
    assert first.wants_demo
    assert authenticate(username="admin", password=first.password)
    assert first_start.prepare().password is None


@pytest.mark.django_db
def test_demo_data_never_goes_where_somebody_works_or_beside_a_real_org(settings: Settings) -> None:
    settings.CRM_IS_SANDBOX = False
    assert not first_start.prepare().wants_demo
    settings.CRM_IS_SANDBOX = True
    make_team()
    assert not first_start.prepare().wants_demo


@pytest.mark.skipif(not shutil.which("openssl"), reason="the printed lines sign with openssl")
def test_the_printed_lines_send_a_lead_that_is_signed_right(tmp_path: Path) -> None:
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    text = Greeting("http://127.0.0.1:8000", None, secret).text()
    lines = text[text.index("body=") :]
    (tmp_path / "curl").write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    (tmp_path / "curl").chmod(0o755)
    said = subprocess.run(
        ["sh", "-euc", lines], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    ).stdout
    headers = dict(re.findall(r"^(webhook-\w+): (.+)$", said, re.MULTILINE))
    body = next(line for line in said.splitlines() if line.startswith("{"))
    assert Webhook(secret).verify(body, headers)
    assert "http://127.0.0.1:8000/in/web" in said


def test_a_password_and_a_secret_appear_only_when_there_is_one() -> None:
    text = Greeting("http://127.0.0.1:8000", None, None).text()
    assert "password" not in text and "signature" not in text
    assert "password pw (shown this once" in Greeting("http://127.0.0.1:8000", "pw", None).text()


def test_a_server_that_does_not_come_is_not_waited_for_for_ever() -> None:
    assert not wait_until_ready(f"http://127.0.0.1:{free_port()}", seconds=0.2)


class Answers(BaseHTTPRequestHandler):
    """A web server of somebody, which says the same to everybody."""

    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def web_server(body: bytes, port: int = 0) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Says", (Answers,), {"body": body}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_another_program_on_the_port_is_not_taken_for_rota(tmp_path: Path) -> None:
    with web_server(b"<h1>It works!</h1>") as address:
        assert not wait_until_ready(address, seconds=0.2)
    with web_server(b'{"ready": true}') as address:
        assert wait_until_ready(address)
    with sink(tmp_path) as relay:
        assert not wait_until_ready(f"http://127.0.0.1:{relay.port}", seconds=0.2)


def test_rota_is_up_is_said_only_when_it_is() -> None:
    port, said = free_port(), []
    with contextlib.ExitStack() as later:

        def say(line: str) -> None:
            said.append(line)
            if len(said) == 1:
                later.enter_context(web_server(b'{"ready": true}', port))

        welcome(Greeting(f"http://127.0.0.1:{port}", "pw", None), False, say, seconds=0.2)
    assert "not ready after 0.2 s" in said[0] and "Rota is up" not in said[0]
    assert "Rota is up" in said[1] and len(said) == 2
