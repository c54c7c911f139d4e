"""The door of the data API: checks version and token and hands each call to whom it concerns."""

import logging
import re
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crmsync.sandbox import bulk2, bulk2_query, composite, describe, query, rest, setup_objects
from crmsync.sandbox.calls import DataCall
from crmsync.sandbox.errors import CallError, Stopping, bad_session, not_found
from crmsync.sandbox.faulty_calls import bearer
from crmsync.sandbox.org import Org

_VERSION = re.compile(r"v(\d+)\.0")
_log = logging.getLogger(__name__)


async def _limits(call: DataCall) -> Response:
    return call.answer(describe.limits(call)) if call.method == "GET" else call.not_allowed("GET")


async def _jobs(call: DataCall) -> Response:
    handler = {"ingest": bulk2.answer, "query": bulk2_query.answer}.get("".join(call.segments[1:2]))
    if handler is None:
        raise not_found()
    return await handler(call)


HANDLERS: dict[str, Callable[[DataCall], Awaitable[Response]]] = {
    "sobjects": rest.answer,
    "composite": composite.answer,
    "query": query.answer,
    "queryAll": query.answer,
    "jobs": _jobs,
    "tooling": setup_objects.answer,
    "limits": _limits,
}


async def versions(request: Request) -> Response:
    """`GET /services/data/`: the only data call without a token."""
    return JSONResponse(describe.versions())


async def data(request: Request) -> Response:
    """Every call below `/services/data/`; a trailing slash makes no difference."""
    org: Org = request.app.state.org
    segments = [unquote(part) for part in request.scope["raw_path"].decode("ascii").split("/") if part]
    version = _VERSION.fullmatch(segments[2]) if len(segments) > 2 else None
    call = DataCall(org, request, int(version[1]) if version else describe.NEWEST_VERSION, segments[3:])
    try:
        if version is None or call.version > describe.NEWEST_VERSION:
            raise not_found()
        if call.version < describe.OLDEST_VERSION:
            text = f"Version {call.version}.0 of the API is retired. Use {describe.OLDEST_VERSION}.0 or later."
            raise CallError(410, "UNSUPPORTED_API_VERSION", text)
        await org.faults.wait_out_stall()
        org.check_limits()
        if not org.sessions.is_good(bearer(request)):
            raise bad_session()
        if not call.segments:
            return call.answer(describe.resources(call))
        handler = HANDLERS.get(call.segments[0])
        if handler is None:
            raise not_found()
        with org.counted():
            return await handler(call)
    except CallError as error:
        return call.refuse(error)
    except Stopping:
        return call.refuse(CallError(503, "SERVER_UNAVAILABLE", "The org is being stopped"))
    except Exception:
        _log.exception("%s %s failed", call.method, call.segments)
        return call.refuse(CallError(500, "UNKNOWN_EXCEPTION", "An unexpected error occurred."))
