"""What Resend says of a bounce decides, not the wording of its message."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from standardwebhooks import Webhook

from outreach.mail.providers import is_soft
from outreach.models import Message, ProviderEvent, Suppression
from routing.models.source import new_secret
from tests.outreach.test_feedback import MAIL_ID, in_doubt, sent

pytestmark = pytest.mark.django_db(transaction=True)


def resend(settings: Any, kind: str, **more: Any) -> str:
    """Have Resend's webhook say this of the one mail, and return as what it was kept."""
    settings.EMAIL_PROVIDER, settings.EMAIL_PROVIDER_WEBHOOK_SECRET = "resend", new_secret()
    headers = [{"name": "X-Metadata", "value": json.dumps({"mail_id": MAIL_ID})}]
    data = {"email_id": "e1", "to": ["a@acme.example"], "headers": headers, **more}
    event, now = json.dumps({"type": kind, "created_at": "2026-11-29T10:00:00Z", "data": data}), datetime.now(UTC)
    signature = Webhook(settings.EMAIL_PROVIDER_WEBHOOK_SECRET).sign("msg_1", now, event)
    signed = {"svix-id": "msg_1", "svix-timestamp": str(int(now.timestamp())), "svix-signature": signature}
    answer = Client().post("/events/mail/resend", event, content_type="application/json", headers=signed)
    assert answer.status_code == 200
    return str(ProviderEvent.objects.get().kind)


@pytest.mark.parametrize(
    "message",
    [
        "The recipient's mailbox is gone.",
        "Resend has suppressed sending to this address because it is on the account-level suppression list.",
        "The recipient's email provider sent a hard bounce message.",
        "",
    ],
)
def test_a_permanent_bounce_suppresses_whatever_its_wording(settings: Any, message: str) -> None:
    sent()
    bounce = {"message": message, "type": "Permanent", "subType": "General"}
    assert resend(settings, "email.bounced", bounce=bounce) == "bounced"
    assert Suppression.objects.get().reason == "bounced"


@pytest.mark.parametrize("word", ["Transient", "Undetermined"])
def test_a_bounce_that_may_not_be_for_good_suppresses_nobody(settings: Any, word: str) -> None:
    sent()
    bounce = {"message": "The recipient's email provider sent a bounce message.", "type": word, "subType": "General"}
    assert resend(settings, "email.bounced", bounce=bounce) == "soft_bounced"
    assert not Suppression.objects.exists()


def test_a_mail_that_resend_could_not_send_settles_a_doubt_as_refused(settings: Any) -> None:
    in_doubt()
    assert resend(settings, "email.failed", failed={"reason": "reached_daily_quota"}) == "rejected"
    assert Message.objects.get().status == "failed" and not Suppression.objects.exists()


def test_an_address_that_resend_sends_nothing_to_any_more_is_suppressed(settings: Any) -> None:
    sent()
    assert resend(settings, "email.suppressed", suppressed={"message": "..."}) == "bounced"
    assert Suppression.objects.get().reason == "bounced"


def test_an_event_that_nobody_knows_is_kept_and_changes_nothing(settings: Any) -> None:
    sent()
    assert resend(settings, "email.scheduled") == "other"
    assert not Suppression.objects.exists()


@pytest.mark.parametrize(
    ("said", "reason", "soft"),
    [
        ({"data": {"bounce": {"type": "Permanent"}}}, "other", False),
        ({"Type": "HardBounce"}, "other", False),
        ({"event": "hard_bounce"}, "blocked", False),
        ({"Type": "VirusNotification"}, "other", True),
        ({"event": "invalid_email"}, "invalid", False),
        ({"data": {"bounce": {}}}, "bounced", False),
    ],
)
def test_a_providers_own_word_goes_before_the_reason_that_was_found(
    said: dict[str, Any], reason: str, soft: bool
) -> None:
    assert is_soft(said, reason=reason) == soft
