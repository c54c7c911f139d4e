"""Where relays and providers report on mails that left. Nothing is believed that is not signed or knows the secret."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from anymail.exceptions import AnymailError, AnymailWebhookValidationFailure
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from outreach.errors import NotAllTakenIn
from outreach.flows.feedback import read_all, take_all_in
from outreach.mail.providers import PROVIDERS, report_of, webhook_of
from outreach.mail.reports import Report
from routing.kinds.kind import BadBody, parse_json
from routing.problem import problem
from routing.signatures import WrongSignature, verify

logger = logging.getLogger(__name__)

REPORTS_MOST = 1_000
OWN = "mail events"
SIGNED = "whsec_"


@csrf_exempt
@require_POST
def mail_events(request: HttpRequest) -> HttpResponse:
    """POST /events/mail: one JSON object a line, signed as Standard Webhooks with MAIL_EVENTS_SECRET.

    Lines end at \n and nowhere else. All are taken in, or, where one is no report, none: 422 names those lines. Told
    twice, a report acts once.
    """
    if not settings.MAIL_EVENTS_SECRET:
        return problem(HTTPStatus.NOT_FOUND, "Reports are not taken here: MAIL_EVENTS_SECRET is not set.")
    try:
        body = request.body
        verify(body=body, headers=request.headers, secrets=(settings.MAIL_EVENTS_SECRET,))
    except RequestDataTooBig:
        return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{settings.INBOUND_MAX_BYTES} bytes at most.")
    except WrongSignature as refusal:
        return problem(HTTPStatus.UNAUTHORIZED, str(refusal.__doc__))
    lines = [(f"line {number}", line) for number, line in enumerate(body.split(b"\n"), start=1) if line.strip()]
    names = [name for name, _ in lines]
    if not lines or len(lines) > REPORTS_MOST:
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"Send from 1 to {REPORTS_MOST} lines.")
    reports, bad = read_all([parsed(line) for _, line in lines], source=OWN)
    if bad:
        errors = [{"path": names[place], "problem": why} for place, why in bad]
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "Nothing was taken in.", errors=errors)
    return answer_to(reports, names=names)


@csrf_exempt
@require_POST
def provider_events(request: HttpRequest, name: str) -> HttpResponse:
    """POST /events/mail/<provider>: the webhook of the provider that EMAIL_PROVIDER names, as it sends it."""
    secret = settings.EMAIL_PROVIDER_WEBHOOK_SECRET
    if name != settings.EMAIL_PROVIDER or not secret:
        return problem(HTTPStatus.NOT_FOUND, "EMAIL_PROVIDER and EMAIL_PROVIDER_WEBHOOK_SECRET name no such webhook.")
    webhook = webhook_of(PROVIDERS[name])
    try:
        if secret.startswith(SIGNED):
            verify(body=request.body, headers=svix(request), secrets=(secret,))
        else:
            webhook.run_validators(request)
        read = [report_of(event, source=name) for event in webhook.parse_events(request)]
    except RequestDataTooBig:
        return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{settings.INBOUND_MAX_BYTES} bytes at most.")
    except (WrongSignature, AnymailWebhookValidationFailure):
        return problem(HTTPStatus.UNAUTHORIZED, "The signature or the password is wrong.")
    except (AnymailError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as fault:
        logger.warning("webhook unreadable provider=%s fault=%s", name, type(fault).__name__)
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "This is not what the provider's webhook sends.")
    named = [(f"event {number}", report) for number, report in enumerate(read, start=1) if report is not None]
    return answer_to([report for _, report in named], names=[name for name, _ in named])


def svix(request: HttpRequest) -> dict[str, str]:
    """Svix signs as Standard Webhooks does, under header names of its own."""
    return {f"webhook-{name}": request.headers.get(f"svix-{name}", "") for name in ("id", "timestamp", "signature")}


def parsed(line: bytes) -> Any:
    """A line's JSON; None where it is none."""
    try:
        return parse_json(line.decode())  # what is signed is UTF-8
    except BadBody:
        return None


def answer_to(reports: Sequence[Report], *, names: Sequence[str]) -> HttpResponse:
    """Take the reports in, and say what came of it; those that could not be are told by their names."""
    try:
        return JsonResponse(take_all_in(reports))
    except NotAllTakenIn as fault:
        errors = [{"path": names[place], "problem": "was not taken in"} for place in fault.places]
        if fault.again:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, str(fault), errors=errors, retry_after_s=5)
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(fault), errors=errors)
