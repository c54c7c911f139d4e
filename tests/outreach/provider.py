"""A server on this machine that behaves like a provider's HTTP API: Postmark's, Resend's or Brevo's."""

import json
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any]
KEY = "a-key"


@dataclass
class Api:
    """What was taken, by address; and how the next requests are answered instead of well.

    An entry of `script` is a status with its body, or a word: "hang up" (before the request is read), "hang up after"
    (it is taken, nobody says so), "silence" (the same, and the connection stays open), "redirect".
    """

    kind: str
    script: list[Answer | str] = field(default_factory=list)
    taken: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    known: dict[str, str] = field(default_factory=dict)
    before: Callable[[], None] | None = None
    go: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def addresses(self) -> Counter[str]:
        return Counter(str(mail["to"]) for mail in self.taken)

    def authorised(self, headers: Any) -> bool:
        given = {
            "postmark": headers.get("X-Postmark-Server-Token"),
            "resend": (headers.get("Authorization") or "").removeprefix("Bearer "),
            "brevo": headers.get("api-key"),
        }
        return given[self.kind] == KEY

    def take(self, mail: dict[str, Any], key: str) -> Answer:
        """Accept a mail; the same idempotency key once more only gets the first answer, another body a refusal."""
        to, headers = read(self.kind, mail)
        number, text = str(uuid.uuid4()), json.dumps(mail, sort_keys=True)
        if key and key in self.known:
            first_number, first_text = self.known[key].split("\n", 1)
            if first_text != text:
                return 409, {"name": "invalid_idempotent_request", "message": "other payload", "statusCode": 409}
            return 200, {"id": first_number}
        if key:
            self.known[key] = f"{number}\n{text}"
        self.taken.append({"to": to, "headers": headers, "key": key, "mail": mail})
        if self.kind == "postmark":
            return 200, {"To": to, "MessageID": number, "ErrorCode": 0, "Message": "OK"}
        return (200, {"id": number}) if self.kind == "resend" else (201, {"messageId": f"<{number}@relay.example>"})


def read(kind: str, mail: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Recipient and headers of a request."""
    if kind == "postmark":
        return mail["To"], {header["Name"]: header["Value"] for header in mail["Headers"]}
    to = mail["to"][0]
    return (to["email"] if isinstance(to, dict) else to), mail["headers"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: Api

    def do_POST(self) -> None:
        api = self.api
        api.requests += 1
        say = api.script.pop(0) if api.script else ""
        if api.before is not None:
            api.before()
        if say == "hang up":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        mail = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if say == "redirect":
            return self.answer(307, {}, Location=api.url + "elsewhere")
        if isinstance(say, tuple):
            return self.answer(*say)
        if not api.authorised(self.headers):
            return self.answer(401, {"ErrorCode": 10, "Message": "bad token", "code": "unauthorized"})
        code, body = api.take(mail, self.headers.get("Idempotency-Key") or "")
        if say == "silence":
            api.go.wait(30)
        if say in ("silence", "hang up after"):
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.answer(code, body)

    def answer(self, code: int, body: Any, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def provider(kind: str, *script: Answer | str) -> Iterator[Api]:
    """Serve such an API until the end of the block."""
    api = Api(kind, list(script))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"api": api}))
    server.daemon_threads = True
    api.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield api
    finally:
        api.go.set()
        server.shutdown()
        server.server_close()
