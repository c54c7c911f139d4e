"""The inbound webhook: POST /in/<source>. 201 a lead and its rep, 202 it waits, 200 nothing new."""

import json
import logging
from http import HTTPStatus
from typing import Any, NoReturn

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from routing.errors import Busy, EventConflict, InvalidLead
from routing.intake import accept
from routing.models import InboundEvent, InboundSource
from routing.problem import problem
from routing.signatures import WrongSignature, verify

logger = logging.getLogger(__name__)

STATUS = {
    "assigned": HTTPStatus.CREATED,
    "waiting": HTTPStatus.ACCEPTED,
    "touched": HTTPStatus.OK,
    "replayed": HTTPStatus.OK,
}
EVENT_ID_MOST = InboundEvent._meta.get_field("event_id").max_length or 0


@csrf_exempt
@require_POST
def inbound(request: HttpRequest, slug: str) -> HttpResponse:
    """Take in one event of a source."""
    if request.content_type != "application/json":
        return problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send application/json.")
    body = _read(request)
    if isinstance(body, HttpResponse):
        return body
    try:
        return _take_in(request, slug, body)
    except (DatabaseError, InterfaceError) as fault:
        logger.error("inbound failed source=%s fault=%s", slug, type(fault.__cause__ or fault).__name__)
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, "The lead was not taken in. Send it again.", retry_after_s=5)


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
    if not _is_utf8(body):
        return problem(HTTPStatus.BAD_REQUEST, "The body is not in UTF-8.")
    try:
        event_id = verify(body=body, headers=request.headers, secrets=(source.secret, source.previous_secret))
    except WrongSignature as refusal:
        return problem(HTTPStatus.UNAUTHORIZED, str(refusal.__doc__))
    if not source.active:
        return problem(HTTPStatus.GONE, "This source was switched off. Send nothing more to it.")
    if not event_id.isprintable() or len(event_id) > EVENT_ID_MOST:
        return problem(HTTPStatus.BAD_REQUEST, f"webhook-id should be printable, {EVENT_ID_MOST} characters at most.")
    try:
        payload = json.loads(body, parse_constant=_refuse, object_pairs_hook=_each_name_once)
    except (ValueError, RecursionError):
        return problem(HTTPStatus.BAD_REQUEST, "The body is not JSON in UTF-8 that names each field once.")
    if not isinstance(payload, dict):
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "The body should be one JSON object, a lead.")
    return _answer(source, event_id, body, payload, request.id)  # type: ignore[attr-defined]


def _answer(
    source: InboundSource, event_id: str, body: bytes, payload: dict[str, Any], request_id: str
) -> HttpResponse:
    try:
        accepted = accept(source=source, event_id=event_id, body=body, payload=payload, request_id=request_id)
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


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _too_large() -> HttpResponse:
    return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A delivery has {settings.INBOUND_MAX_BYTES} bytes at most.")


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
