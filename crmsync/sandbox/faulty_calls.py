"""Puts an ordered fault between a call and its answer."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crmsync.sandbox import wire
from crmsync.sandbox.errors import Stopping
from crmsync.sandbox.faults import Fault
from crmsync.sandbox.org import Org

Endpoint = Callable[[Request], Awaitable[Response]]

PAGES = {429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable"}
REFUSALS = {
    "unauthorized": (401, "INVALID_SESSION_ID", "Session expired or invalid"),
    "concurrent_limit": (
        403,
        "REQUEST_LIMIT_EXCEEDED",
        "ConcurrentRequests (Concurrent API Requests) Limit exceeded.",
    ),
    "daily_limit": (403, "REQUEST_LIMIT_EXCEEDED", "TotalRequests Limit exceeded."),
    "storage": (400, "STORAGE_LIMIT_EXCEEDED", "storage limit exceeded"),
}


def with_faults(endpoint: Endpoint) -> Endpoint:
    """The endpoint with the faults that were ordered for calls like this one."""

    async def answer(request: Request) -> Response:
        org: Org = request.app.state.org
        fault = org.faults.strike(request.method, request.url.path)
        if fault is None:
            return await endpoint(request)
        try:
            return await _before(org, request, fault) or await _after(org, request, fault, endpoint)
        except Stopping:
            return Response(status_code=503)

    return answer


def bearer(request: Request) -> str:
    """The token that came with the call, in whichever header the API wants it; "" for none."""
    if "x-sfdc-session" in request.headers:
        return request.headers["x-sfdc-session"].strip()
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() in ("bearer", "oauth") else ""


async def _before(org: Org, request: Request, fault: Fault) -> Response | None:
    if fault.kind == "close_before":
        return await _cut(request)
    if fault.kind == "unavailable":
        name = f"{fault.status} {PAGES.get(fault.status, 'Error')}"
        page = f"<html><head><title>{name}</title></head><body><h1>{name}</h1></body></html>"
        headers = {"Retry-After": str(int(fault.seconds))} if fault.seconds else {}
        return Response(page, fault.status, headers, media_type="text/html;charset=UTF-8")
    if fault.kind in REFUSALS:
        status, code, message = REFUSALS[fault.kind]
        if "/services/async/" in request.url.path:
            code = {"INVALID_SESSION_ID": "InvalidSessionId"}.get(code, "ExceededQuota")
            return JSONResponse({"exceptionCode": code, "exceptionMessage": message}, 400)
        return JSONResponse([{"message": message, "errorCode": code}], status)
    if fault.kind == "expire_token":
        await org.sessions.expire(bearer(request))
    elif fault.kind == "commit_later":
        await request.body()
        await org.pause(fault.seconds)
    return None


async def _after(org: Org, request: Request, fault: Fault, endpoint: Endpoint) -> Response:
    response = await endpoint(request)
    match fault.kind:
        case "commit_then_close":
            return await _cut(request)
        case "answer_late":
            await org.pause(fault.seconds)
        case "cut_short":
            return _CutShort(response)
        case "twice":
            return await endpoint(request)
        case "no_content":
            return Response(status_code=204)
        case "no_charset":
            response.headers["content-type"] = "text/csv"
        case "rows_missing":
            rows = bytes(response.body).splitlines(keepends=True)
            headers = {name: value for name, value in response.headers.items() if name.startswith("sforce")}
            return Response(b"".join(rows[:-1] if len(rows) > 1 else rows), response.status_code, headers, "text/csv")
    return response


class _CutShort(Response):
    """Announces the whole answer, sends half of it and closes the connection."""

    def __init__(self, whole: Response) -> None:
        super().__init__(whole.body, whole.status_code, dict(whole.headers))

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        half = bytes(self.body)[: len(self.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        await wire.finish(tuple(scope["client"]))


async def _cut(request: Request) -> Response:
    if request.client is not None:
        await wire.cut((request.client.host, request.client.port))
    return Response(status_code=503)
