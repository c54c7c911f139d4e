"""What `./rota up` says once everything runs: where to log in, where to send a lead, and what came of the demo."""

import base64
import http.client
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

from config.supervise import LOGS, PROJECT

READY_SECONDS = 60
BODY = '{"email": "ada@acme.example", "first_name": "Ada", "last_name": "Lovelace", "company": "Acme"}'

# Standard Webhooks: the signature covers id, time and body and is good for five minutes, so these lines make it afresh.
TRY_IT = """
    body='{body}'; at=$(date +%s); id=try-$at
    signature=$(printf %s "$id.$at.$body" | openssl dgst -sha256 -mac HMAC -macopt hexkey:{key} -binary | base64)
    curl -i {webhook} -H 'Content-Type: application/json' -d "$body" \\
      -H "webhook-id: $id" -H "webhook-timestamp: $at" -H "webhook-signature: v1,$signature"
"""


@dataclass(frozen=True)
class Greeting:
    """What there is to say: the password is there at its one moment only, the secret only beside the sandbox org."""

    address: str
    password: str | None
    webhook_secret: str | None

    def text(self) -> str:
        """The lines a person needs first."""
        login = (
            f"   user admin, password {self.password} (shown this once; ./rota manage changepassword admin)"
            if self.password
            else ""
        )
        webhook = f"{self.address}/in/web" if self.webhook_secret else f"{self.address}/in/<source>"
        return (
            "\nRota is up.\n"
            f"  Admin    {self.address}/admin/{login}\n"
            f"  Webhook  {webhook}\n"
            f"  Logs     {LOGS.relative_to(PROJECT)}/\n"
            "  Stop     Ctrl-C here, or ./rota down anywhere, which stops Postgres too\n"
            f"{self._try_it(webhook)}"
        )

    def _try_it(self, webhook: str) -> str:
        if not self.webhook_secret:
            return ""
        key = base64.b64decode(self.webhook_secret.removeprefix("whsec_")).hex()
        return f"  Try it:\n{TRY_IT.format(body=BODY, key=key, webhook=webhook)}"


def wait_until_ready(address: str, seconds: float = READY_SECONDS) -> bool:
    """Poll /readyz until Rota itself says there that it is ready, `seconds` at most."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if is_ready(address):
            return True
        time.sleep(0.1)
    return False


def is_ready(address: str) -> bool:
    """Whether Rota answers there, and can do its work. Whatever else has the port says something else, or nothing."""
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=2) as answer:
            return bool(json.loads(answer.read(1_000)) == {"ready": True})
    except (http.client.HTTPException, OSError, ValueError):
        return False


def welcome(greeting: Greeting, wants_demo: bool, say: Callable[[str], object], seconds: float = READY_SECONDS) -> None:
    """Wait for the server, say where it is, and run the demo once where the database was empty.

    Nothing is up before it answers: after `seconds` it is said that it does not, and waited on.
    """
    if not wait_until_ready(greeting.address, seconds):
        say(f"error: {greeting.address} is not ready after {seconds:g} s; see {LOGS}/web.log. Still trying.")
        while not wait_until_ready(greeting.address):
            pass
    say(greeting.text())
    if wants_demo:
        say("The database was empty: running the demo once.")
        tethered = [sys.executable, "-m", "config.tether", str(os.getpid())]
        demo = [*tethered, sys.executable, "manage.py", "demo", "--against", greeting.address]
        subprocess.run(demo, cwd=PROJECT, stdout=sys.stderr.fileno())
