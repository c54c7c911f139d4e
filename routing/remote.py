"""Ask a sender's API, within a deadline: the one module of routing that speaks HTTP to anybody.

It never follows a redirect, never repeats a call, and reads no more than a megabyte; when to ask again is for whoever
asks. A token goes to https only, or to this very machine.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

PIECE = 64 * 1024
MOST_BYTES = 1024 * 1024
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
RETRY_AFTER_MOST_S = 6 * 3600


class NoAnswer(Exception):
    """The API gave no whole answer; the message says what happened instead."""


@dataclass(frozen=True)
class Answer:
    """`body` is the answer's JSON, None where it is none; `retry_after_s` what the API asked for, 0 if nothing."""

    status: int
    body: Any
    retry_after_s: int = 0


def is_safe(url: str) -> bool:
    """Whether a token may be sent there."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK))


def get(url: str, *, params: Mapping[str, str], headers: Mapping[str, str], deadline_s: float) -> Answer:
    """Ask once. Raises NoAnswer where the API does not answer whole within `deadline_s` seconds."""
    if not is_safe(url):
        raise NoAnswer("its address is not https")
    until = time.monotonic() + deadline_s
    connect_s = min(5.0, deadline_s / 2)
    try:
        with requests.Session() as session:
            session.trust_env = False  # a proxy or .netrc of this machine must not see or answer these calls
            session.mount("https://", HTTPAdapter(max_retries=0))
            response = session.get(
                url,
                params=dict(params),
                headers={"Accept": "application/json", **headers},
                timeout=(connect_s, deadline_s - connect_s),
                allow_redirects=False,
                stream=True,
            )
            body = _read(response, until)
    except requests.exceptions.Timeout as fault:
        raise NoAnswer("it did not answer in time") from fault
    except (requests.exceptions.RequestException, HTTPError, OSError, UnicodeError) as fault:
        raise NoAnswer(f"it could not be reached ({type(fault).__name__})") from fault
    return Answer(response.status_code, _json(body), retry_after_s(response.headers.get("Retry-After", "")))


def _read(response: requests.Response, until: float) -> bytes:
    """requests counts its time anew for every packet; an answer that trickles is cut off here."""
    body = bytearray()
    while piece := response.raw.read1(PIECE, decode_content=True):
        body += piece
        if time.monotonic() > until:
            raise NoAnswer("its answer takes too long")
        if len(body) > MOST_BYTES:
            raise NoAnswer("its answer is too large")
    return bytes(body)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def retry_after_s(text: str) -> int:
    """The header in seconds, given as such or as a date; 0 where it cannot be read; six hours at most."""
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError):
            return 0
    return int(min(max(0.0, seconds), RETRY_AFTER_MOST_S))
