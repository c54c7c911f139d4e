"""What every answer carries: the id of its request, and a policy that lets no inline script or style run."""

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest

GetResponse = Callable[[HttpRequest], HttpResponse]
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'none'"
)
PLAIN_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)


class RequestIdMiddleware:
    """Take `X-Request-Id` from the caller where it is plain, else make one; put it on the request and the answer."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-Id", "")
        request.id = given if PLAIN_ID.fullmatch(given) else uuid.uuid4().hex  # type: ignore[attr-defined]
        response = self.get_response(request)
        response["X-Request-Id"] = request.id  # type: ignore[attr-defined]
        return response


class NoNulMiddleware:
    """Postgres takes no NUL in a text, so no address that holds one can name anything: 400, before anybody looks."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "\0" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            return HttpResponseBadRequest("The address has a NUL character in it.", content_type="text/plain")
        return self.get_response(request)


class ContentSecurityPolicyMiddleware:
    """Own scripts and styles only, none of them inline."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response
