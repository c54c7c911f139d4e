"""The inbound webhook: POST /in/<source>. 201 a lead and its rep, 202 it waits, 200 nothing new.

A sender that says who the lead is and signs as a developer chose to is told by the status what became of it. A provider
is told 200 as soon as its events are stored, for whatever else makes it send them again or switch the webhook off.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from routing.arrivals import Arrived, take_in, take_in_all
from routing.errors import Busy, EventConflict, InvalidLead
from routing.kinds import KINDS
from routing.kinds.kind import BadBody, Event, Incoming, Kind, events_of
from routing.models import InboundEvent, InboundSource
from routing.problem import problem

logger = logging.getLogger(__name__)

STATUS = {
    "assigned": HTTPStatus.CREATED,
    "waiting": HTTPStatus.ACCEPTED,
    "touched": HTTPStatus.OK,
    "replayed": HTTPStatus.OK,
}
EVENT_ID_MOST = InboundEvent._meta.get_field("event_id").max_length or 0
CONTENT_TYPES = {content_type for kind in KINDS.values() for content_type in kind.content_types}
JSON = "application/json"


@csrf_exempt
def inbound(request: HttpRequest, slug: str) -> HttpResponse:
    """Take in the events of a source; answer a sender that asks by GET whether this is the right address."""
    try:
        if request.method == "GET":
            return _handshake(request, slug)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if request.content_type not in CONTENT_TYPES:
            return problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send application/json.")
        body = _read(request)
        return body if isinstance(body, HttpResponse) else _take_in(request, slug, body)
    except (DatabaseError, InterfaceError) as fault:
        logger.error("inbound failed source=%s fault=%s", slug, type(fault.__cause__ or fault).__name__)
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, "The lead was not taken in. Send it again.", retry_after_s=5)


def _handshake(request: HttpRequest, slug: str) -> HttpResponse:
    source = InboundSource.objects.filter(slug=slug).first()
    kind = KINDS.get(source.kind) if source else None
    if source is None or kind is None or not kind.handshake_type:
        return HttpResponseNotAllowed(["POST"])
    secrets = [secret for secret in (source.secret, source.previous_secret) if secret]
    answer = kind.handshake(request.GET.dict(), source.verify_token, secrets) if source.active else None
    if answer is None:
        return problem(HTTPStatus.FORBIDDEN, "This is not the handshake that this source expects.")
    return HttpResponse(answer, content_type=kind.handshake_type)


def _read(request: HttpRequest) -> bytes | HttpResponse:
    """The raw body, or the answer to one that cannot be read. Senders may leave out Content-Length and send chunks."""
    most = settings.INBOUND_MAX_BYTES
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
        if length > most:
            return _too_large()
        chunked = not length and request.META.get("wsgi.input_terminated")  # the server knows where the body ends
        body: bytes = request.META["wsgi.input"].read(most + 1) if chunked else request.body
    except Exception as fault:  # every server has its own error for a broken chunk
        logger.warning("inbound body unreadable fault=%s", type(fault).__name__)
        return problem(HTTPStatus.BAD_REQUEST, "The body could not be read.")
    if len(body) > most:
        return _too_large()
    if len(body) < length:
        return problem(HTTPStatus.BAD_REQUEST, "The body ended early.")
    return body


def _take_in(request: HttpRequest, slug: str, body: bytes) -> HttpResponse:
    source = InboundSource.objects.with_book().filter(slug=slug).first()
    if source is None:
        return problem(HTTPStatus.NOT_FOUND, "There is no source of this name.")
    kind = KINDS.get(source.kind)
    if kind is None:
        logger.error("kind unknown source=%s kind=%s", slug, source.kind)
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, "This source cannot be read at present.", retry_after_s=600)
    if request.content_type not in kind.content_types:
        return problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Send {' or '.join(kind.content_types)}.")
    if request.content_type == JSON and not _is_utf8(body):
        return problem(HTTPStatus.BAD_REQUEST, "The body is not in UTF-8.")
    incoming = Incoming(
        body=body,
        headers=request.headers,
        at=time.time(),
        uris=_addresses(request),
        content_type=str(request.content_type),
    )
    if not any(kind.verify(incoming, secret) for secret in (source.secret, source.previous_secret) if secret):
        return problem(HTTPStatus.UNAUTHORIZED, "The signature is missing, wrong or too old.")
    if not source.active:
        return problem(HTTPStatus.GONE, "This source was switched off. Send nothing more to it.")
    named = request.headers.get(kind.id_header, "") if kind.id_header else ""
    if not named.isprintable() or len(named) > EVENT_ID_MOST:
        rule = f"{kind.id_header} should be printable, {EVENT_ID_MOST} characters at most."
        return problem(HTTPStatus.BAD_REQUEST, rule)
    try:
        events = [replace(event, id=named) if named else event for event in events_of(kind, incoming)]
    except BadBody as refusal:
        return problem(HTTPStatus.BAD_REQUEST, str(refusal))
    if kind.answers and len(events) == 1:
        return _answer(source, kind, incoming, events[0], request.id)  # type: ignore[attr-defined]
    return _store(source, kind, incoming, events, request.id)  # type: ignore[attr-defined]


def _addresses(request: HttpRequest) -> tuple[str, ...]:
    """Those under which the sender may know us: the public one, and the one asked for, which a proxy may have put into
    plain http. None of them is believed: one of them was signed.
    """
    path, asked = request.get_full_path(), request.build_absolute_uri()
    secure = f"https{asked.removeprefix('http')}" if asked.startswith("http:") else asked
    return tuple(dict.fromkeys([settings.PUBLIC_URL.rstrip("/") + path, asked, secure]))


def _answer(source: InboundSource, kind: Kind, incoming: Incoming, event: Event, request_id: str) -> HttpResponse:
    """Take in the one event and tell by the status what became of it."""
    if event.bad:
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "The body should be one JSON object, a lead.")
    try:
        accepted = take_in(
            source=source, kind=kind, event=event, body=incoming.body, request_id=request_id, at=incoming.at
        )
    except InvalidLead as refusal:
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(refusal), errors=refusal.problems)
    except EventConflict as refusal:
        return problem(HTTPStatus.CONFLICT, str(refusal))
    except Busy as refusal:
        return problem(HTTPStatus.CONFLICT, str(refusal), retry_after_s=1)
    rep = {"id": accepted.rep_id, "name": accepted.rep_name} if accepted.rep_id else None
    response = JsonResponse(
        {"outcome": accepted.outcome, "lead": str(accepted.lead), "rep": rep}, status=STATUS[accepted.outcome]
    )
    if accepted.outcome == "replayed":
        response["Idempotent-Replayed"] = "true"
    return response


def _store(
    source: InboundSource, kind: Kind, incoming: Incoming, events: Sequence[Event], request_id: str
) -> HttpResponse:
    """Take in all events and answer 200: what could not be made a lead of is kept for a person, not sent again."""
    try:
        arrived = take_in_all(source=source, kind=kind, incoming=incoming, events=events, request_id=request_id)
    except Busy as refusal:  # 503, for providers take a 409 for good
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, str(refusal), retry_after_s=5)
    return JsonResponse({"events": [_line(each) for each in arrived]})


def _line(arrived: Arrived) -> dict[str, str]:
    """One event of the answer: its id and outcome, its lead where it has one, why where it has none."""
    line = {"id": arrived.event_id, "outcome": arrived.outcome}
    if arrived.accepted:
        line["lead"] = str(arrived.accepted.lead)
    return {**line, "because": arrived.because} if arrived.because else line


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _too_large() -> HttpResponse:
    return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A delivery has {settings.INBOUND_MAX_BYTES} bytes at most.")
