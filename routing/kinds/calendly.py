"""Calendly: somebody booked. Calendly-Webhook-Signature is t=<seconds>,v1=<hex HMAC-SHA256 of t, a dot and the body>;
older than three minutes is refused. A reschedule comes as a cancellation and a booking, in any order.
https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures
"""

from collections.abc import Mapping
from typing import Any

from routing.kinds.kind import Incoming, Kind, Read, fresh, mac, required, same
from routing.kinds.names import USUAL

WINDOW_S = 180
BRINGS_A_LEAD = {"invitee.created", "routing_form_submission.created"}


def verify(incoming: Incoming, secret: str) -> bool:
    """Any of the signatures in the header, over its time and the body."""
    pairs = [part.strip().partition("=") for part in incoming.headers.get("Calendly-Webhook-Signature", "").split(",")]
    stamp = next((value for key, _, value in pairs if key == "t"), "")
    wanted = mac(secret, stamp, ".", incoming.body).hex()
    good = False
    for key, _, value in pairs:
        good |= key == "v1" and same(value, wanted)
    return good and fresh(stamp, at=incoming.at, window_s=WINDOW_S)


def name(said: dict[str, Any]) -> str:
    """What happened to which invitee or submission."""
    return f"{required(said, 'event')} {required(said, 'payload', 'uri')}"


def read(said: dict[str, Any]) -> Read:
    """The invitee, their answers by question, and where they came from."""
    type_ = str(required(said, "event"))
    if type_ not in BRINGS_A_LEAD:
        return Read(ignored=f"{type_[:60]} brings no lead")
    payload = required(said, "payload")
    fields = {
        str(required(each, "question")): each.get("answer")
        for each in payload.get("questions_and_answers") or []
        if each.get("answer")
    }
    tracking: Mapping[str, Any] = payload.get("tracking") or {}
    fields |= {key: value for key, value in tracking.items() if value}
    own = ("name", "first_name", "last_name", "email", "text_reminder_number", "timezone", "event", "rescheduled")
    fields |= {key: payload[key] for key in own if payload.get(key)}
    return Read(fields=fields)


KIND = Kind(
    label="Calendly",
    how="Create a webhook subscription for invitee.created with the address and, as its signing key, the secret.",
    verify=verify,
    name=name,
    read=read,
    usual={**USUAL, "phone": ("text_reminder_number", *USUAL["phone"])},
)
