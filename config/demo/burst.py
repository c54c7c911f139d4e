"""Send leads to a webhook as a webinar tool does at the end of a webinar: all at once, some of them twice."""

import http.client
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from standardwebhooks import Webhook

from config.demo.leads import Event

TIMEOUT_S = 30


@dataclass(frozen=True)
class Answer:
    """What the webhook answered. `ms` from the first byte sent to the last received; `at` is when that was, Unix
    time.
    """

    event_id: str
    status: int
    body: dict[str, Any]
    ms: float
    at: float


def send(
    *, url: str, secret: str, events: Sequence[Event], connections: int, over_s: float = 0.0
) -> tuple[list[Answer], list[str]]:
    """Send the events over that many open connections, in turn; return the answers, and what went wrong with the rest.

    With `over_s` 0 all connections send at the same moment; else event i is sent after i / n of that time. Raises
    ConnectionError if the webhook cannot be reached at all.
    """
    lanes = [events[lane::connections] for lane in range(min(connections, len(events)))]
    order = {id(event): number for number, event in enumerate(events)}
    start = threading.Barrier(len(lanes))
    answers: list[Answer] = []
    failures: list[str] = []
    began = [0.0]

    def work(lane: Sequence[Event]) -> None:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
        try:
            connection.connect()
            start.wait(TIMEOUT_S)
            began[0] = began[0] or time.monotonic()
            for event in lane:
                if over_s:
                    time.sleep(max(0.0, began[0] + over_s * order[id(event)] / len(events) - time.monotonic()))
                answers.append(_post(connection, parts.path, secret, event))
        except (OSError, http.client.HTTPException, threading.BrokenBarrierError) as fault:
            failures.append(f"{type(fault).__name__}: {fault}")
            start.abort()
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers, failures


def _post(connection: http.client.HTTPConnection, path: str, secret: str, event: Event) -> Answer:
    body = json.dumps(event.lead, ensure_ascii=False)
    now = datetime.now(tz=UTC)
    headers = {
        "Content-Type": "application/json",
        "webhook-id": event.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(event.id, now, body),
    }
    began = time.perf_counter()
    connection.request("POST", path, body=body.encode(), headers=headers)
    response = connection.getresponse()
    raw = response.read()
    ms = (time.perf_counter() - began) * 1000
    try:
        told = json.loads(raw)
    except ValueError:
        told = {}
    return Answer(event.id, response.status, told, ms, time.time())
