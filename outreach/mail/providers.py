"""The hosted providers that Rota can hand mail to, and what is particular to each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from outreach.mail.reports import WORDS, Report, address_in, believed, digest_of, mail_id_in, text_in
from outreach.models import ProviderEvent

Kind = ProviderEvent.Kind
HARD = (None, "bounced", "invalid")
"""Reasons (django-anymail's words) for which a bounce means a dead mailbox, where the provider has no own word."""
FOR_NOW = ("softbounce", "soft_bounce", "transient", "temporary", "undetermined")
FOR_GOOD = ("hardbounce", "hard_bounce", "permanent")
"""The providers' own words, which anymail does not pass on, and which go before its reasons."""
UNREAD = {"email.failed": Kind.REJECTED, "email.suppressed": Kind.BOUNCED}
"""Resend's events that anymail does not know. It could not send the mail, or would not, for the address has bounced
before: https://resend.com/docs/webhooks/event-types"""


@dataclass(frozen=True)
class Provider:
    """`key` is anymail's name for the credential; `idempotency` the HTTP header that carries the key, if it knows one.

    `ours` are error codes in the answer's body that are about us and not about a mail: they stop sending. `dead` are
    those about an address that the provider sends nothing to any more.
    """

    backend: str
    key: str
    webhook: str
    idempotency: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    ours: frozenset[Any] = frozenset()
    dead: frozenset[Any] = frozenset()


PROVIDERS = {
    # Error codes: https://postmarkapp.com/developer/api/overview. X-PM-KeepID has it keep our Message-ID.
    "postmark": Provider(
        "anymail.backends.postmark.EmailBackend",
        "server_token",
        "anymail.webhooks.postmark.PostmarkTrackingWebhookView",
        headers={"X-PM-KeepID": "true"},
        ours=frozenset({10, 400, 401, 405, 412, 413}),
        dead=frozenset({406}),
    ),
    # Idempotency keys are kept for 24 hours: https://resend.com/docs/dashboard/emails/idempotency-keys
    "resend": Provider(
        "anymail.backends.resend.EmailBackend",
        "api_key",
        "anymail.webhooks.resend.ResendTrackingWebhookView",
        idempotency="Idempotency-Key",
        ours=frozenset({"invalid_from_address", "invalid_api_key", "missing_api_key", "restricted_api_key"}),
    ),
    "brevo": Provider(
        "anymail.backends.brevo.EmailBackend",
        "api_key",
        "anymail.webhooks.brevo.BrevoTrackingWebhookView",
        ours=frozenset({"unauthorized", "permission_denied", "not_enough_credits", "account_under_validation"}),
    ),
}


def chosen() -> Provider | None:
    """The provider that EMAIL_PROVIDER names; None where mail leaves over SMTP."""
    return PROVIDERS.get(settings.EMAIL_PROVIDER)


def webhook_of(provider: Provider) -> Any:
    """Anymail's reader of this provider's webhook, which also knows its password."""
    return import_string(provider.webhook)(webhook_secret=[settings.EMAIL_PROVIDER_WEBHOOK_SECRET])


def report_of(event: Any, *, source: str) -> Report | None:
    """An event as anymail reads it, as a report; None for one that is about no mail and nobody."""
    metadata = event.metadata if isinstance(event.metadata, Mapping) else {}
    mail_id, address = mail_id_in(metadata.get("mail_id")), address_in(event.recipient)
    if not mail_id and not address:
        return None
    kind = WORDS.get(event.event_type) or UNREAD.get(str(event.esp_event.get("type")), Kind.OTHER)
    if kind == Kind.BOUNCED and is_soft(event.esp_event, reason=event.reject_reason):
        kind = Kind.SOFT_BOUNCED
    own_id = text_in(f"{event.event_type} {event.event_id}") if event.event_id else ""
    detail = text_in(event.mta_response or event.description)[:500]
    event_id = own_id[:200] or digest_of(event.esp_event)
    return Report(source, event_id, kind, mail_id, address, believed(event.timestamp), detail)


def is_soft(said: Any, *, reason: str | None = None) -> bool:
    """Whether a bounce is for now: by the word of Postmark, Brevo or Resend (in this order) in the event itself, else
    by the reason that anymail found."""
    words = [said.get("Type"), said.get("event")]
    data = said.get("data")
    bounce = data.get("bounce") if isinstance(data, Mapping) else None
    words.append(bounce.get("type") if isinstance(bounce, Mapping) else None)
    own = [str(word).lower() for word in words]
    if any(word in FOR_NOW for word in own):
        return True
    return reason not in HARD and not any(word in FOR_GOOD for word in own)
