"""The way out of campaign mail: GET asks and changes nothing, POST does it, by hand or with one click (RFC 8058)."""

from http import HTTPStatus

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from outreach.mail.links import recipient_of
from outreach.models import Recipient, Suppression
from outreach.moves.suppression import suppress


@csrf_exempt  # a mail program posts without a cookie; the signed token is the proof
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Ask, or stop all campaign mail to the recipient that the token names. Any number of times, with one result.

    The page names no address: whoever has the link learns nothing. Scanners follow links, so GET does nothing.
    """
    recipient_id = recipient_of(token)
    if recipient_id is None or not Recipient.objects.filter(pk=recipient_id).exists():
        return render(request, "outreach/unsubscribe.html", {"known": False}, status=HTTPStatus.NOT_FOUND)
    if request.method != "POST":
        return render(request, "outreach/unsubscribe.html", {"known": True})
    with transaction.atomic(durable=True):
        suppress(recipient_id=recipient_id, reason=Suppression.Reason.UNSUBSCRIBED, worker="unsubscribe link")
    return render(request, "outreach/unsubscribe.html", {"known": True, "done": True})
