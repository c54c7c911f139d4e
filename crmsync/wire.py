"""How long a call may take, and where it may go: the transport under the gateway."""

import time
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

PIECE = 64 * 1024


class BoundedAdapter(HTTPAdapter):
    """Sends a request and reads its answer within `total_s` seconds, never twice.

    simple-salesforce sets no timeout anywhere, and requests' own counts anew for every packet. The time for connecting
    is taken from the total. An answer that trickles is cut off at the total plus one silence. `plain_http_to` sends
    every request to a local org's address instead of its own host.
    """

    def __init__(self, *, total_s: float, plain_http_to: str | None = None, refuse: bool = False) -> None:
        self.total_s = total_s
        self.target = urlsplit(plain_http_to) if plain_http_to else None
        self.refuse = refuse
        self.not_after: float | None = None  # a time.monotonic() second; whatever would end later is not even begun
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        if self.refuse:
            raise requests.exceptions.InvalidURL("Plain http is not for an org.", request=request)
        if self.target:
            parts = urlsplit(str(request.url))
            request.url = urlunsplit((self.target.scheme, self.target.netloc, parts.path, parts.query, ""))
        now = time.monotonic()
        total_s = self.total_s if self.not_after is None else min(self.total_s, self.not_after - now)
        if total_s <= 0:
            raise requests.exceptions.ConnectTimeout("Too late to send it.", request=request)
        deadline = now + total_s
        connect_s = min(5.0, total_s / 4)
        kwargs |= {"timeout": (connect_s, total_s - connect_s), "stream": True, "proxies": None}
        response = super().send(request, **kwargs)
        response._content = self.read(response, deadline)
        response._content_consumed = True  # type: ignore[attr-defined]
        return response

    @staticmethod
    def read(response: requests.Response, deadline: float) -> bytes:
        body = bytearray()
        try:
            while piece := response.raw.read1(PIECE, decode_content=True):
                body += piece
                if time.monotonic() > deadline:
                    response.close()
                    raise requests.exceptions.ReadTimeout("The answer takes too long.", request=response.request)
        except (OSError, HTTPError) as error:
            if isinstance(error, requests.RequestException):
                raise
            raise requests.exceptions.ChunkedEncodingError(error, request=response.request) from error
        return bytes(body)
