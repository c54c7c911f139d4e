"""Send events to a source as its senders do: signed by Standard Webhooks' own code."""

import json
import uuid
from datetime import UTC, datetime
from typing import Any

from django.test import Client
from standardwebhooks import Webhook

from routing.models import InboundSource
from tests.make import make_payload

CLIENT = Client(raise_request_exception=False)  # one for all: it keeps no cookies here, and is slow to make


def headers_for(
    body: str | bytes, *, secret: str, event_id: str = "", at: datetime | None = None, timestamp: str = ""
) -> dict[str, str]:
    """The three headers of Standard Webhooks."""
    text = body if isinstance(body, str) else body.decode()
    event_id = event_id or f"evt_{uuid.uuid4().hex}"
    at = at or datetime.now(UTC)
    signature = Webhook(secret).sign(msg_id=event_id, timestamp=at, data=text)
    return {
        "webhook-id": event_id,
        "webhook-timestamp": timestamp or str(int(at.timestamp())),
        "webhook-signature": signature,
    }


def send(
    source: InboundSource,
    payload: Any = None,
    *,
    body: str | bytes | None = None,
    event_id: str = "",
    secret: str = "",
    at: datetime | None = None,
    content_type: str = "application/json",
    headers: dict[str, str] | None = None,
) -> Any:
    """Post one event, good unless told otherwise, over Django's test client."""
    if body is None:
        body = json.dumps(make_payload() if payload is None else payload)
    signed = headers_for(body, secret=secret or source.secret, event_id=event_id, at=at)
    return CLIENT.post(
        f"/in/{source.slug}", data=body, content_type=content_type, headers={**signed, **(headers or {})}
    )


def lead_named(response: Any) -> str:
    """The lead an answer names."""
    return str(response.json()["lead"])
