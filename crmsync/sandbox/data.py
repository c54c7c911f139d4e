"""The door of the data API: checks version and token and hands each call to whom it concerns."""

import logging
import re
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crmsync.sandbox import composite, describe, query, rest, wire
from crmsync.sandbox.calls import DataCall
from crmsync.sandbox.errors import CallError, Stopping, bad_session, not_found
from crmsync.sandbox.org import Org

Endpoint = Callable[[Request], Awaitable[Response]]

UNAVAILABLE_PAGE = (
    "<html><head><title>Service Unavailable</title></head><body><h1>503 Service Unavailable</h1></body></html>"
)

_VERSION = re.compile(r"v(\d+)\.0")
_log = logging.getLogger(__name__)


async def _limits(call: DataCall) -> Response:
    return call.answer(describe.limits(call)) if call.method == "GET" else call.not_allowed("GET")


HANDLERS: dict[str, Callable[[DataCall], Awaitable[Response]]] = {
    "sobjects": rest.answer,
    "composite": composite.answer,
    "query": query.answer,
    "limits": _limits,
}


def with_faults(endpoint: Endpoint) -> Endpoint:
    """The endpoint with the faults that were ordered for calls like this one."""

    async def answer(request: Request) -> Response:
        org: Org = request.app.state.org
        fault = org.faults.strike(request.url.path)
        if fault == "close_before":
            return await _cut(request)
        if fault == "unavailable":
            return Response(UNAVAILABLE_PAGE, 503, media_type="text/html;charset=UTF-8")
        if fault == "expire_token":
            await org.sessions.expire(_bearer(request))
        response = await endpoint(request)
        return await _cut(request) if fault == "commit_then_close" else response

    return answer


async def versions(request: Request) -> Response:
    """`GET /services/data/`: the only data call without a token."""
    return JSONResponse(describe.versions())


async def data(request: Request) -> Response:
    """Every call below `/services/data/`; a trailing slash makes no difference."""
    org: Org = request.app.state.org
    segments = [unquote(part) for part in request.scope["raw_path"].decode("ascii").split("/") if part]
    version = _VERSION.fullmatch(segments[2]) if len(segments) > 2 else None
    call = DataCall(org, request, int(version[1]) if version else describe.NEWEST_VERSION, segments[3:])
    org.calls += 1
    try:
        if version is None or call.version > describe.NEWEST_VERSION:
            raise not_found()
        if call.version < describe.OLDEST_VERSION:
            text = f"Version {call.version}.0 of the API is retired. Use {describe.OLDEST_VERSION}.0 or later."
            raise CallError(410, "UNSUPPORTED_API_VERSION", text)
        await org.faults.wait_out_stall()
        if not org.sessions.is_good(_bearer(request)):
            raise bad_session()
        if not call.segments:
            return call.answer(describe.resources(call))
        handler = HANDLERS.get(call.segments[0])
        if handler is None:
            raise not_found()
        return await handler(call)
    except CallError as error:
        return call.refuse(error)
    except Stopping:
        return call.refuse(CallError(503, "SERVER_UNAVAILABLE", "The org is being stopped"))
    except Exception:
        _log.exception("%s %s failed", call.method, call.segments)
        return call.refuse(CallError(500, "UNKNOWN_EXCEPTION", "An unexpected error occurred."))


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() in ("bearer", "oauth") else ""


async def _cut(request: Request) -> Response:
    if request.client is not None:
        await wire.cut((request.client.host, request.client.port))
    return Response(status_code=503)
