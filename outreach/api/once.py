"""Writes that may be sent again: one Idempotency-Key, one answer."""

import functools
import hashlib
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Schema

from outreach.api.refusals import answer_for
from outreach.errors import OutreachError
from outreach.models import AgentRequest
from outreach.moves.agent_requests import answer_request, drop_request, open_request
from routing.problem import problem

logger = logging.getLogger(__name__)

KEY_MOST = AgentRequest._meta.get_field("key").max_length or 0
DOCUMENTED: dict[str, Any] = {
    "parameters": [
        {
            "in": "header",
            "name": "Idempotency-Key",
            "required": True,
            "description": "Fresh for each thing you want done, the same when you send it again.",
            "schema": {"type": "string", "minLength": 1, "maxLength": KEY_MOST},
        }
    ]
}


class Problem(Schema):
    """Why not, in `detail`."""

    type: str
    title: str
    status: int
    detail: str


REFUSALS: dict[Any, Any] = {frozenset({401, 403, 404, 409, 422, 429}): Problem}


def once(view: Callable[..., Schema]) -> Callable[..., HttpResponse]:
    """Have a write run once for each key of an agent, and give its answer, refusals included, to every repetition.

    The answer is kept before it is given; one that was lost on its way is given again. Where the server failed, the
    key is free: the same request runs again, and meets whatever the first one committed.
    """

    @functools.wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        key = request.headers.get("Idempotency-Key", "")
        if not key.strip() or len(key) > KEY_MOST or not key.isprintable():
            return problem(HTTPStatus.BAD_REQUEST, f"Send an Idempotency-Key, {KEY_MOST} characters at most.")
        agent_id = request.auth.pk  # type: ignore[attr-defined]
        said = b"\n".join((str(request.method).encode(), request.get_full_path().encode(), request.body))
        try:
            opened = open_request(agent_id=agent_id, key=key, digest=hashlib.sha256(said).hexdigest())
        except OutreachError as refusal:
            return answer_for(refusal)
        if opened.code is not None:
            again = reply(opened.code, opened.answer)
            again["Idempotent-Replayed"] = "true"
            return again
        try:
            code, answer = run(view, request, *args, **kwargs)
            answer_request(pk=opened.pk, code=code, answer=answer)
        except Exception:
            drop_request(pk=opened.pk)
            raise
        return reply(code, answer)

    return wrapped


def run(view: Callable[..., Schema], *args: Any, **kwargs: Any) -> tuple[int, Any]:
    """What the view answers, or what its refusal becomes."""
    try:
        return int(HTTPStatus.OK), view(*args, **kwargs).model_dump(mode="json")
    except OutreachError as refusal:
        answer = answer_for(refusal)
        if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise  # it may be sent again: no answer is kept
        body = {"type": "about:blank", "title": answer.reason_phrase, "status": answer.status_code}
        return answer.status_code, {**body, "detail": getattr(refusal, "reason", "") or str(refusal)}


def reply(code: int, answer: Any) -> JsonResponse:
    kind = "application/json" if code < 400 else "application/problem+json"
    return JsonResponse(answer, status=code, content_type=kind)
