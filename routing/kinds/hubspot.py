"""HubSpot app webhooks, signature v3: batches of events that name a contact by its id only.

The signature is base64 HMAC-SHA256, by the app's client secret, of method, URI, body and the time in milliseconds; a
request older than five minutes is refused. An eventId alone is not unique, HubSpot says.
https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/request-validation
"""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from routing.kinds.kind import Api, BadBody, Incoming, Kind, Question, Read, fresh, mac, parse_json, required, same
from routing.kinds.names import USUAL

# HubSpot decodes these, and no others, in the URI before it signs.
DECODED = re.compile("%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)
LEADS = {"contact.creation", "contact.propertyChange", "contact.restore"}
OBJECTS = {"object.creation", "object.propertyChange", "object.restore"}  # the same of any object; contacts are 0-1
KNOWN = ("email", "firstname", "lastname", "phone", "mobilephone", "company", "country")
MORE = ("jobtitle", "website", "city", "state", "lifecyclestage", "hs_lead_status", "hs_analytics_source")


def verify(incoming: Incoming, secret: str) -> bool:
    """Signature v3, over any of the addresses under which HubSpot may know us."""
    stamp = incoming.headers.get("X-HubSpot-Request-Timestamp", "")
    given = incoming.headers.get("X-HubSpot-Signature-v3", "")
    if not fresh(stamp, at=incoming.at, per_second=1000):
        return False
    good = False
    for uri in incoming.uris:
        plain = DECODED.sub(lambda found: chr(int(found[1], 16)), uri.partition("#")[0])
        wanted = base64.b64encode(mac(secret, incoming.method, plain, incoming.body, stamp)).decode()
        good |= same(given, wanted)
    return good


def items(incoming: Incoming) -> Sequence[Any]:
    """The events of the batch."""
    said = parse_json(incoming.body)
    if not isinstance(said, list):
        raise BadBody("The body should be an array of events.")
    return said


def name(said: dict[str, Any]) -> str:
    """Everything that stays the same when HubSpot delivers the event again; attemptNumber does not."""
    required(said, "eventId")
    parts = ("portalId", "eventId", "subscriptionId", "objectId", "occurredAt")
    return ".".join(str(said.get(part, "")) for part in parts)


def read(said: dict[str, Any]) -> Read:
    """The contact to fetch; whatever does not bring or change a contact is no lead."""
    type_ = str(required(said, "subscriptionType"))
    if type_ in LEADS or (type_ in OBJECTS and said.get("objectTypeId") == "0-1"):
        return Read(fetch=str(required(said, "objectId")))
    return Read(ignored=f"{type_[:60]} brings no lead")


def ask(contact: str, token: str, names: Sequence[str]) -> Question:
    """A contact with the properties that are wanted: HubSpot tells no others."""
    wanted = ",".join(dict.fromkeys([*names, *KNOWN, *MORE]))
    return Question(
        f"/crm/v3/objects/contacts/{quote(contact, safe='')}",
        {"properties": wanted},
        {"Authorization": f"Bearer {token}"},
    )


def contact_of(answer: Any) -> Mapping[str, Any]:
    """The properties that have a value."""
    found = required(answer, "properties")
    return {name: value for name, value in found.items() if value not in (None, "")}


KIND = Kind(
    label="HubSpot",
    how="Enter the address as the webhook target of a HubSpot app and subscribe to contact.creation.",
    secret_is="The client secret of the HubSpot app, on its page under Auth.",
    verify=verify,
    items=items,
    name=name,
    read=read,
    usual={**USUAL, "phone": ("phone", "mobilephone"), "full_name": ()},
    api=Api("https://api.hubapi.com", ask, contact_of),
)
