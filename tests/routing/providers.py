"""Post to a source as its provider does, signed the provider's way; and an API like HubSpot's and Meta's, on a socket.

Signatures are made here from the providers' own descriptions, not with the code that checks them.
"""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from routing.models import InboundSource
from tests.make import make_source
from tests.routing.senders import CLIENT

HOST = "http://testserver"
SECRET = "test-secret-not-real"
Signer = Callable[[InboundSource, bytes], dict[str, str]]


def keyed(secret: str, *parts: bytes) -> hmac.HMAC:
    return hmac.new(secret.encode(), b"".join(parts), hashlib.sha256)


def hubspot(source: InboundSource, body: bytes) -> dict[str, str]:
    at = str(int(time.time() * 1000))
    signed = keyed(source.secret, b"POST", f"{HOST}/in/{source.slug}".encode(), body, at.encode()).digest()
    return {"X-HubSpot-Request-Timestamp": at, "X-HubSpot-Signature-v3": base64.b64encode(signed).decode()}


def meta(source: InboundSource, body: bytes) -> dict[str, str]:
    return {"X-Hub-Signature-256": "sha256=" + keyed(source.secret, body).hexdigest()}


def typeform(source: InboundSource, body: bytes) -> dict[str, str]:
    return {"Typeform-Signature": "sha256=" + base64.b64encode(keyed(source.secret, body).digest()).decode()}


def webflow(source: InboundSource, body: bytes) -> dict[str, str]:
    at = str(int(time.time() * 1000))
    return {
        "x-webflow-timestamp": at,
        "x-webflow-signature": keyed(source.secret, at.encode(), b":", body).hexdigest(),
    }


def calendly(source: InboundSource, body: bytes) -> dict[str, str]:
    at = str(int(time.time()))
    return {"Calendly-Webhook-Signature": f"t={at},v1={keyed(source.secret, at.encode(), b'.', body).hexdigest()}"}


def generic(source: InboundSource, body: bytes) -> dict[str, str]:
    return {"Authorization": f"Bearer {source.secret}"}


SIGNERS: dict[str, Signer] = {
    "hubspot": hubspot,
    "meta": meta,
    "typeform": typeform,
    "webflow": webflow,
    "calendly": calendly,
    "generic": generic,
}


def make_source_of(kind: str, **fields: Any) -> InboundSource:
    """A source of this kind, with a secret as its provider makes them."""
    return make_source(kind=kind, secret=SECRET, **fields)


def post(source: InboundSource, said: Any, *, content_type: str = "application/json", **headers: str) -> Any:
    """Post `said` (bytes as they are, anything else as JSON), signed with the source's newest secret."""
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    signed = SIGNERS[source.kind](source, body)
    return CLIENT.post(f"/in/{source.slug}", data=body, content_type=content_type, headers={**signed, **headers})


def contact_event(number: int, *, contact: int = 0, attempt: int = 0, **more: Any) -> dict[str, Any]:
    """One event of a HubSpot batch."""
    return {
        "eventId": number,
        "subscriptionId": 77,
        "portalId": 1234567,
        "occurredAt": 1790000000000,
        "subscriptionType": "contact.creation",
        "attemptNumber": attempt,
        "objectId": contact or 42_000 + number,
        **more,
    }


def leadgen(*leads: str, **more: Any) -> dict[str, Any]:
    """A Meta request with one change for each lead."""
    changes = [{"field": "leadgen", "value": {"leadgen_id": lead, "page_id": "1", "form_id": "8"}} for lead in leads]
    return {"object": "page", "entry": [{"id": "1", "time": 1790000001, "changes": changes}], **more}


def booking(email: str = "pat@acme.example", *, number: int = 1, event: str = "invitee.created") -> dict[str, Any]:
    """A Calendly delivery."""
    uri = f"https://api.calendly.example/scheduled_events/E1/invitees/I{number}"
    return {"event": event, "payload": {"uri": uri, "email": email, "name": "Pat de Novák"}}


class Api(BaseHTTPRequestHandler):
    """Answers as HubSpot and Meta do, or as the test has it for this very record."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server: Any = self.server
        parts = urlsplit(self.path)
        record = parts.path.rpartition("/")[2]
        server.asked.append((record, parse_qs(parts.query), dict(self.headers)))
        planned = server.planned.get(record) or []
        status, body, headers = planned.pop(0) if planned else self.usual(parts.path, record)
        if status == "hang":
            server.stopping.wait(body)
            return
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def usual(self, path: str, record: str) -> tuple[int, Any, dict[str, str]]:
        server: Any = self.server
        if self.headers.get("Authorization") != f"Bearer {server.token}":
            return (401, {"status": "error", "category": "INVALID_AUTHENTICATION"}, {})
        known = server.records.get(record)
        if known is None:
            return (404, {"status": "error", "message": "resource not found"}, {})
        if path.startswith("/crm/v3/objects/contacts/"):
            return (200, {"id": record, "properties": known}, {})
        data = [{"name": name, "values": [value]} for name, value in known.items()]
        return (200, {"id": record, "created_time": "2026-09-21T13:33:20+0000", "field_data": data}, {})

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


class Provider(ThreadingHTTPServer):
    """The API: `records` by id, `planned` answers by id (status, body, headers), and everything it was `asked`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Api)
        self.token = "the-token"
        self.records: dict[str, dict[str, str]] = {}
        self.planned: dict[str, list[tuple[Any, Any, dict[str, str]]]] = {}
        self.asked: list[tuple[str, dict[str, list[str]], dict[str, str]]] = []
        self.stopping = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no matter."""


@contextmanager
def provider() -> Iterator[Provider]:
    """The API until the end of the block."""
    server = Provider()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()
