"""What `./rota up` says once everything runs: where to log in, where to send a lead, and what came of the demo."""

import base64
import os
import subprocess
import sys
import time
import urllib.error
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
    """Poll /readyz until it answers 200, `seconds` at most."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/readyz", timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    return False


def welcome(greeting: Greeting, wants_demo: bool, say: Callable[[str], object]) -> None:
    """Wait for the server, say where it is, and run the demo once where the database was empty."""
    if not wait_until_ready(greeting.address):
        say(f"error: {greeting.address} is not ready after {READY_SECONDS} s; see {LOGS}/web.log. Still trying.")
    say(greeting.text())
    if wants_demo:
        say("The database was empty: running the demo once.")
        tethered = [sys.executable, "-m", "config.tether", str(os.getpid())]
        demo = [*tethered, sys.executable, "manage.py", "demo", "--against", greeting.address]
        subprocess.run(demo, cwd=PROJECT, stdout=sys.stderr.fileno())
