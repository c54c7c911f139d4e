"""Any form or tool that can post JSON or form fields and send one fixed header: Zapier, Make, Marketo, one's own site.

It proves itself by the shared secret in `Authorization: Bearer`, as the password of basic authentication, or in
`X-Rota-Secret`; never in the address, which ends up in logs.
"""

import base64
import binascii
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from django.http import QueryDict
from django.http.multipartparser import MultiPartParser, MultiPartParserError

from routing.kinds.kind import BadBody, Incoming, Kind, parse_json, same

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
ID_NAMES = ("event_id", "eventId", "id", "submission_id", "lead_id", "Lead ID", "entry_id", "EntryId")


def verify(incoming: Incoming, secret: str) -> bool:
    """Whether one of the three headers carries the secret."""
    scheme, _, given = incoming.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            given = ""
    elif scheme.lower() != "bearer":
        given = ""
    plain = incoming.headers.get("X-Rota-Secret", "")
    return bool(same(given.strip(), secret)) | bool(same(plain, secret))  # both are looked at, whatever the first says


def items(incoming: Incoming) -> Sequence[Any]:
    """One lead, as JSON or as a form; or a JSON array of leads."""
    if incoming.content_type == FORM:
        return [_plain(QueryDict(incoming.body, encoding="utf-8"))]
    if incoming.content_type == MULTIPART:
        meta = {
            "CONTENT_TYPE": incoming.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(incoming.body)),
        }
        try:
            form, _ = MultiPartParser(meta, BytesIO(incoming.body), [], "utf-8").parse()
        except MultiPartParserError as fault:
            raise BadBody("The body is not a form that can be read.") from fault
        return [_plain(form)]
    said = parse_json(incoming.body)
    return said if isinstance(said, list) else [said]


def _plain(form: QueryDict) -> dict[str, Any]:
    """A form's fields: a text, or a list where a name comes several times."""
    return {name: values[0] if len(values) == 1 else values for name, values in form.lists()}


def name(said: dict[str, Any]) -> str:
    """The sender's own id of this event under one of its usual names; empty: it has none, and intake makes one."""
    found = next((said[each] for each in ID_NAMES if isinstance(said.get(each), str | int) and said[each] != ""), "")
    return str(found)


KIND = Kind(
    label="JSON or form with a shared secret",
    how="POST JSON or form fields with the header “Authorization: Bearer” and the secret. An id of the event under "
    "event_id, id or lead_id makes it count once, however often it is sent.",
    verify=verify,
    items=items,
    name=name,
    answers=True,
    content_types=("application/json", FORM, MULTIPART),
)
