"""Standard Webhooks 1.0: the event id and the time are headers, and signed together with the raw body."""

from typing import Any

from routing.kinds.kind import Incoming, Kind
from routing.signatures import WrongSignature
from routing.signatures import verify as verify_signature


def verify(incoming: Incoming, secret: str) -> bool:
    """By the standard's own library, which reads the clock itself."""
    try:
        verify_signature(body=incoming.body, headers=incoming.headers, secrets=[secret])
    except WrongSignature:
        return False
    return True


def name(said: dict[str, Any]) -> str:
    """The id is in a header."""
    return ""


KIND = Kind(
    label="Standard Webhooks",
    how="Every delivery is a POST of JSON, signed as in Standard Webhooks 1.0.",
    verify=verify,
    name=name,
    id_header="webhook-id",
    answers=True,
    usual={},
)
