"""What a refusal becomes on the wire."""

from collections.abc import Iterable
from http import HTTPStatus

from django.http import JsonResponse

from outreach.errors import (
    BadReport,
    ClaimLost,
    GateClosed,
    KeyUsedOtherwise,
    NotAllowed,
    NotAllTakenIn,
    NotFound,
    OutreachError,
    RateReached,
    StillUnderWay,
    TokenRefused,
)
from routing.problem import problem

STATUS: dict[type[OutreachError], HTTPStatus] = {
    TokenRefused: HTTPStatus.UNAUTHORIZED,
    NotAllowed: HTTPStatus.FORBIDDEN,
    NotFound: HTTPStatus.NOT_FOUND,
    ClaimLost: HTTPStatus.CONFLICT,
    GateClosed: HTTPStatus.CONFLICT,
    StillUnderWay: HTTPStatus.CONFLICT,
    BadReport: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotAllTakenIn: HTTPStatus.UNPROCESSABLE_ENTITY,
    KeyUsedOtherwise: HTTPStatus.UNPROCESSABLE_ENTITY,
    RateReached: HTTPStatus.TOO_MANY_REQUESTS,
}


def answer_for(refusal: OutreachError) -> JsonResponse:
    """The problem+json of a refusal. A closed gate says nothing but the reason: it is what the agent goes by."""
    detail = refusal.reason if isinstance(refusal, GateClosed) else str(refusal)
    wait = refusal.retry_after_s if isinstance(refusal, RateReached) else None
    if isinstance(refusal, StillUnderWay):
        wait = 1
    status = STATUS.get(type(refusal), HTTPStatus.BAD_REQUEST)
    errors = None
    if isinstance(refusal, NotAllTakenIn):
        errors = [{"path": f"events.{place}", "problem": "was not taken in"} for place in refusal.places]
        status, wait = (HTTPStatus.SERVICE_UNAVAILABLE, 5) if refusal.again else (status, None)
    answer = problem(status, detail, errors=errors, retry_after_s=wait)
    if isinstance(refusal, TokenRefused):
        answer["WWW-Authenticate"] = 'Bearer error="invalid_token"'
    return answer


def path_of(where: Iterable[int | str]) -> str:
    """A field's path as people write it: results.2.outcome; the name of our own parameter is left out."""
    parts = [str(part) for part in where]
    return ".".join(parts[2:] or parts[1:] or parts)
