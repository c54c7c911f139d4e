"""What a kind of source is: a few pure functions that know one provider's signature, body and API, and no table.

verify(incoming, secret)   is this request from somebody who knows the secret?
items(incoming)            the events in the request, each as the sender put it
name(said)                 the sender's own id of such an event: the same event, the same id
read(said)                 what it says of a lead, or the id to fetch that from the sender's API, or why it is none
handshake(query, ...)      the answer to a sender that first asks by GET whether this address is meant
fetch                      how to ask the sender's API, where its events carry ids only
"""

import hashlib
import hmac
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from routing.kinds.names import USUAL

WINDOW_S = 300
"""How old or how far ahead a signed time may be, where the sender's own documentation names no other window."""
DIGITS_MOST = 16


class BadBody(Exception):
    """The body cannot be read as what this kind of source sends; the message says why, without its contents."""


@dataclass(frozen=True)
class Incoming:
    """One request as it came. `uris` are the addresses under which its sender may know us; `at` is our clock (s)."""

    body: bytes
    headers: Mapping[str, str]
    at: float
    method: str = "POST"
    uris: tuple[str, ...] = ()
    content_type: str = "application/json"


@dataclass(frozen=True)
class Read:
    """What an event says: `fields` by the sender's names; or `fetch`, an id; or `ignored`, why it is no lead."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    fetch: str = ""
    ignored: str = ""


@dataclass(frozen=True)
class Event:
    """One event of a request: its id (empty where its sender gives it none), the sender's words for it, and what was
    read; or `bad`: why it cannot be.
    """

    id: str
    said: dict[str, Any]
    read: Read = field(default_factory=Read)
    bad: str = ""


@dataclass(frozen=True)
class Question:
    """A GET to the sender's API: `path` is added to its address; the headers carry the source's token."""

    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Api:
    """How the lead behind an id is fetched. `ask(id, token, names)`, where `names` are the sender's fields we want.

    `refused(answer)` says of a body that came with an error status what it really means, where the status does not:
    "token", "limited", "gone", "later", or nothing.
    """

    url: str
    ask: Callable[[str, str, Sequence[str]], Question]
    read: Callable[[Any], Mapping[str, Any]]
    refused: Callable[[Any], str] = lambda answer: ""


def _one_object(incoming: Incoming) -> list[Any]:
    return [parse_json(incoming.body)]


def _all_of_it(said: dict[str, Any]) -> Read:
    return Read(fields=said)


def no_handshake(query: Mapping[str, str], verify_token: str, secrets: Sequence[str]) -> str | None:
    """Most senders never ask."""
    return None


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One provider. `usual` are its names of our fields, tried in order where a source maps none of its own.

    `secret_is` tells staff where the secret comes from; empty: Rota makes one. `answers` is True where whoever posts
    is told by the status what became of the lead; a provider is told 200 as soon as its events are stored. `id_header`
    names the header with the event's id, where that is not in the body. `handshake_type` is the content type of the
    answer to a handshake, nothing where the sender never asks.
    """

    label: str
    verify: Callable[[Incoming, str], bool]
    name: Callable[[dict[str, Any]], str]
    items: Callable[[Incoming], Sequence[Any]] = _one_object
    read: Callable[[dict[str, Any]], Read] = _all_of_it
    handshake: Callable[[Mapping[str, str], str, Sequence[str]], str | None] = no_handshake
    handshake_type: str = ""
    usual: Mapping[str, Sequence[str]] = field(default_factory=lambda: USUAL)
    secret_is: str = ""
    how: str = ""
    id_header: str = ""
    answers: bool = False
    content_types: tuple[str, ...] = ("application/json",)
    api: Api | None = None


def events_of(kind: Kind, incoming: Incoming) -> list[Event]:
    """Every event of a request, the bad ones among them. Raises BadBody where the request as a whole is unreadable."""
    return [_event(kind, item) for item in kind.items(incoming)]


def _event(kind: Kind, item: Any) -> Event:
    if not isinstance(item, dict):
        return Event(_made_of(item), {"said": item}, bad="should be an object")
    name = ""
    try:
        name = tidy_id(kind.name(item))
        return Event(name, item, kind.read(item))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as fault:
        # A KeyError names the field that is missing; other faults name values, which are personal data.
        missing = f": {fault.args[0]} is missing" if isinstance(fault, KeyError) else ""
        return Event(name or _made_of(item), item, bad=f"is not what {kind.label} sends{missing}")


def _made_of(item: Any) -> str:
    """An id for what has none that can be read: the same words, the same id."""
    try:
        words = json.dumps(item, sort_keys=True)
    except RecursionError:  # nested out of all proportion
        words = uuid.uuid4().hex
    return "unnamed-" + hashlib.sha256(words.encode()).hexdigest()[:40]


def tidy_id(name: str) -> str:
    """The sender's id as it is, or its digest where it is longer than the column or not printable."""
    if name.isprintable() and len(name) <= 200:
        return name
    return "sha256-" + hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


def required(said: Mapping[str, Any], *path: str) -> Any:
    """The value under these names, one inside the other. Raises KeyError with the whole path where it is missing."""
    value: Any = said
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None or value == "":
        raise KeyError(".".join(path))
    return value


def parse_json(body: bytes | str) -> Any:
    """The JSON of a body. Raises BadBody: no JSON, NaN or Infinity, or a field named twice with different values."""
    try:
        return json.loads(body, parse_constant=_refuse, object_pairs_hook=_each_name_once)
    except (ValueError, RecursionError) as fault:
        raise BadBody("The body is not JSON in UTF-8 that names each field once.") from fault


def _refuse(constant: str) -> NoReturn:
    """NaN and Infinity are no JSON, though Python reads them."""
    raise ValueError(constant)


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A field given twice with different values is refused: whichever won, the other would be lost in silence."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if fields.setdefault(name, value) != value:
            raise ValueError(name)
    return fields


def mac(secret: str, *parts: str | bytes, by: str = "sha256") -> bytes:
    """HMAC of the parts one after the other, with the secret's own text as the key."""
    text = b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    return hmac.new(secret.encode(), text, by).digest()


def same(given: str, wanted: str) -> bool:
    """Whether two texts are the same, in a time that tells nothing of where they differ."""
    return hmac.compare_digest(given.encode(errors="surrogateescape"), wanted.encode())


def fresh(stamp: str, *, at: float, per_second: int = 1, window_s: int = WINDOW_S) -> bool:
    """Whether a signed time, in 1 / per_second seconds since 1970, is within the window around `at`."""
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= DIGITS_MOST):
        return False
    return abs(at - int(stamp) / per_second) <= window_s
