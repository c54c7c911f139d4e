"""Answers that say what is wrong and what to do: problem+json (RFC 9457)."""

from http import HTTPStatus
from typing import Any

from django.http import JsonResponse


def problem(
    status: HTTPStatus, detail: str, *, errors: list[dict[str, str]] | None = None, retry_after_s: int | None = None
) -> JsonResponse:
    """An error answer: `detail` for people, `errors` with a path for each field, Retry-After in seconds."""
    body: dict[str, Any] = {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail}
    if errors:
        body["errors"] = errors
    response = JsonResponse(body, status=status, content_type="application/problem+json")
    if retry_after_s is not None:
        response["Retry-After"] = str(retry_after_s)
    return response
