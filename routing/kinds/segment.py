"""Segment's webhook destination: identify and track calls. X-Signature is hex HMAC-SHA1 of the raw body."""

from typing import Any

from routing.kinds.kind import Incoming, Kind, Read, mac, required, same


def verify(incoming: Incoming, secret: str) -> bool:
    """The signature of the raw body; of one event, for a batch would carry that of its first event only."""
    return same(incoming.headers.get("X-Signature", ""), mac(secret, incoming.body, by="sha1").hex())


def name(said: dict[str, Any]) -> str:
    """The message's id."""
    return str(required(said, "messageId"))


def read(said: dict[str, Any]) -> Read:
    """A person's traits; of a tracked event its properties, and the traits that came along."""
    type_ = str(required(said, "type"))
    if type_ == "identify":
        return Read(fields=said.get("traits") or {})
    if type_ == "track":
        traits = (said.get("context") or {}).get("traits") or {}
        return Read(fields={"event": said.get("event"), **traits, **(said.get("properties") or {})})
    return Read(ignored=f"{type_[:60]} brings no lead")


KIND = Kind(
    label="Segment",
    how="Add a webhook destination with the address and, as its shared secret, the secret.",
    verify=verify,
    name=name,
    read=read,
)
