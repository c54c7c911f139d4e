"""What a provider's answer says of the one recipient: taken with a number only, refused where it says so."""

import json
from typing import Any

import pytest

from outreach.models import Message, SendAttempt, Suppression
from tests.outreach.make import make_running
from tests.outreach.provider import provider
from tests.outreach.test_hosted import sent, through

pytestmark = pytest.mark.django_db(transaction=True)

POSTMARK_OK = {"To": "x@acme.example", "MessageID": "n1", "ErrorCode": 0, "Message": "OK"}
INACTIVE = {"ErrorCode": 406, "Message": "inactive recipient"}


@pytest.mark.parametrize(
    ("kind", "code", "body"),
    [
        ("postmark", 200, POSTMARK_OK),
        ("postmark", 200, POSTMARK_OK | {"Message": "Message accepted, but delivery may be delayed."}),
        ("resend", 200, {"id": "n1"}),
        ("brevo", 201, {"messageId": "n1"}),
        ("brevo", 202, {"messageId": "n1"}),
    ],
)
def test_a_mail_is_accepted_where_the_provider_gives_it_a_number(
    settings: Any, kind: str, code: int, body: dict[str, Any]
) -> None:
    assert settled(settings, kind, code, body) == ("accepted", "sent", "taken as n1")


@pytest.mark.parametrize(
    ("kind", "code", "body"),
    [
        ("postmark", 422, INACTIVE),
        ("postmark", 422, INACTIVE | {"Message": None}),
        ("postmark", 200, INACTIVE),
    ],
)
def test_an_inactive_recipient_is_refused_with_the_providers_text_and_suppressed(
    settings: Any, kind: str, code: int, body: dict[str, Any]
) -> None:
    assert settled(settings, kind, code, body) == ("refused", "failed", json.dumps(body))
    assert Suppression.objects.get().reason == "bounced"


def test_a_recipient_that_the_provider_cannot_read_is_refused_and_not_suppressed(settings: Any) -> None:
    body = {"ErrorCode": 300, "Message": "Invalid 'To' address: 'somebody@else.example'."}
    assert settled(settings, "postmark", 422, body) == ("refused", "failed", json.dumps(body))
    assert not Suppression.objects.exists()


@pytest.mark.parametrize(
    ("kind", "code", "body"),
    [
        ("postmark", 200, {"ErrorCode": 0, "Message": "OK"}),
        ("postmark", 200, POSTMARK_OK | {"MessageID": ""}),
        ("postmark", 200, POSTMARK_OK | {"MessageID": {"a": 1}}),
        ("postmark", 200, {"ErrorCode": 0, "Message": 5}),
        ("postmark", 200, {"ErrorCode": 300, "Message": "Invalid 'To' address"}),
        ("postmark", 422, POSTMARK_OK),
        ("postmark", 200, "OK"),
        ("postmark", 200, []),
        ("resend", 200, {"id": None}),
        ("resend", 200, {"id": ["n1"]}),
        ("resend", 200, {}),
        ("resend", 200, [1]),
        ("brevo", 201, b""),
        ("brevo", 201, {"messageId": ""}),
        ("brevo", 201, {"messageIds": []}),
        ("brevo", 201, {"messageIds": 7}),
    ],
)
def test_an_answer_that_cannot_be_told_is_doubt(settings: Any, kind: str, code: int, body: Any) -> None:
    assert settled(settings, kind, code, body)[:2] == ("in_doubt", "in_doubt")


@pytest.mark.parametrize(
    ("kind", "code", "body"),
    [
        ("postmark", 422, {"ErrorCode": 300, "Message": "Invalid 'To' address"}),
        ("resend", 422, {"id": "n1"}),
        ("brevo", 400, {"messageId": "n1", "code": "invalid_parameter"}),
    ],
)
def test_what_is_answered_with_an_error_is_not_taken(settings: Any, kind: str, code: int, body: Any) -> None:
    assert settled(settings, kind, code, body) == ("deferred", "due", json.dumps(body))


def settled(settings: Any, kind: str, code: int, body: Any) -> tuple[str, str, str]:
    """How try and message stand after this answer, and what was kept of it."""
    make_running()
    with provider(kind, (code, body)) as api:
        through(settings, api)
        sent()
        assert api.requests == 1
    attempt = SendAttempt.objects.get()
    return attempt.status, Message.objects.get().status, attempt.reply
