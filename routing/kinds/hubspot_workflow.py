"""HubSpot workflow webhooks, and apps that still sign the old ways (v1, v2).

X-HubSpot-Signature is hex SHA-256 of secret + body (v1) or secret + method + URI + body (v2), without a time: an old
request cannot be told from a new one, and only its event id keeps it from counting twice. Therefore a kind of its own,
and not a fall-back of v3. A workflow posts the whole contact; such an app posts the same batches of ids as with v3.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from routing.kinds import hubspot
from routing.kinds.kind import Incoming, Kind, Read, parse_json, required, same


def verify(incoming: Incoming, secret: str) -> bool:
    """By v1 or v2, whichever X-HubSpot-Signature-Version names; by either where it names none."""
    given = incoming.headers.get("X-HubSpot-Signature", "")
    version = incoming.headers.get("X-HubSpot-Signature-Version", "")
    wanted = {"v1": [b""], "v2": [f"{incoming.method}{uri}".encode() for uri in incoming.uris]}
    good = False
    for before in wanted.get(version) or [*wanted["v1"], *wanted["v2"]]:
        good |= same(given, hashlib.sha256(secret.encode() + before + incoming.body).hexdigest())
    return good


def items(incoming: Incoming) -> Sequence[Any]:
    """The contact of a workflow, or an app's batch."""
    said = parse_json(incoming.body)
    return said if isinstance(said, list) else [said]


def name(said: dict[str, Any]) -> str:
    """A workflow gives no event id: the contact, and the time at which one of its properties last changed."""
    if "eventId" in said:
        return hubspot.name(said)
    contact = said.get("vid") or required(said, "objectId")
    return f"{contact}.{_changed_at(required(said, 'properties'))}"


def _changed_at(properties: Mapping[str, Any]) -> str:
    times = [
        str(version.get("timestamp", ""))
        for each in properties.values()
        if isinstance(each, Mapping)
        for version in each.get("versions") or []
    ]
    values = ((name, _value(each)) for name, each in sorted(properties.items()))
    return max(times, default="") or hashlib.sha256(repr(list(values)).encode()).hexdigest()[:24]


def _value(given: Any) -> Any:
    return given.get("value") if isinstance(given, Mapping) else given


def read(said: dict[str, Any]) -> Read:
    """The contact's properties, without their history."""
    if "subscriptionType" in said:
        return hubspot.read(said)
    found = {name: _value(each) for name, each in required(said, "properties").items()}
    return Read(fields={name: value for name, value in found.items() if value not in (None, "")})


KIND = Kind(
    label="HubSpot workflow (older signatures)",
    how="Enter the address in a workflow's “Send a webhook” action and let it use the request signature.",
    secret_is="The client secret of the HubSpot app whose id the workflow signs with.",
    verify=verify,
    items=items,
    name=name,
    read=read,
    usual=hubspot.KIND.usual,
    api=hubspot.KIND.api,
)
