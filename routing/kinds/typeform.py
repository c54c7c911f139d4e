"""Typeform: one response of a form, with typed answers. Typeform-Signature is sha256= and base64 HMAC-SHA256 of the
raw body. There is no time in it; a response delivered again has the same token.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

from routing.kinds.kind import Incoming, Kind, Read, mac, required, same

MADE_UP = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
TYPED = {"email": "email", "phone_number": "phone"}


def verify(incoming: Incoming, secret: str) -> bool:
    """The signature of the raw body."""
    wanted = "sha256=" + base64.b64encode(mac(secret, incoming.body)).decode()
    return same(incoming.headers.get("Typeform-Signature", ""), wanted)


def name(said: dict[str, Any]) -> str:
    """The response's token: event_id names the delivery, and a response sent again by hand gets a new one."""
    if said.get("event_type") != "form_response":
        return str(required(said, "event_id"))
    return str(required(said, "form_response", "token"))


def read(said: dict[str, Any]) -> Read:
    """Answers by the reference somebody gave the question, or by its title; the first e-mail address as `email`."""
    if said.get("event_type") != "form_response":
        return Read(ignored=f"{str(said.get('event_type'))[:60]} is not a whole response")
    response = required(said, "form_response")
    questions = {question["id"]: question for question in _questions(response.get("definition") or {})}
    fields: dict[str, Any] = dict(response.get("hidden") or {})
    for answer in response.get("answers") or []:
        fields.setdefault(_named(answer, questions, fields), _value(answer))
    for more in ("form_id", "submitted_at"):
        fields.setdefault(more, response.get(more))
    return Read(fields=fields)


def _questions(definition: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All questions, those inside groups too."""
    for question in definition.get("fields") or []:
        yield question
        yield from _questions(question.get("properties") or {})


def _named(answer: Mapping[str, Any], questions: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    typed = TYPED.get(str(answer.get("type")), "")
    if typed and typed not in fields:
        return typed
    field = required(answer, "field")
    ref = str(field.get("ref") or "")
    title = (questions.get(field.get("id")) or {}).get("title")
    return ref if ref and not MADE_UP.fullmatch(ref) else str(title or ref or required(field, "id"))


def _value(answer: Mapping[str, Any]) -> Any:
    """The value stands under the name of its type; a choice has a label, several have labels."""
    value = answer.get(str(required(answer, "type")))
    if isinstance(value, Mapping):
        if "labels" in value or "label" in value or "other" in value:
            several = [*(value.get("labels") or []), *filter(None, [value.get("other")])]
            return several if "labels" in value else value.get("label") or value.get("other")
        return dict(value)
    return value


KIND = Kind(
    label="Typeform",
    how="Add the address under Connect, Webhooks of the form, with the secret.",
    verify=verify,
    name=name,
    read=read,
)
