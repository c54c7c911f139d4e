"""Tell whether a delivery is from the sender it claims to be from: Standard Webhooks 1.0, with two live secrets."""

from collections.abc import Mapping, Sequence

from standardwebhooks import Webhook, WebhookVerificationError


class WrongSignature(Exception):
    """The signature is missing, wrong or older than five minutes."""


def verify(*, body: bytes, headers: Mapping[str, str], secrets: Sequence[str]) -> str:
    """Return the delivery's event id (the webhook-id header) if one of the secrets signed these raw bytes.

    Raises WrongSignature, which says no more: whoever guesses learns nothing.
    """
    given = {name: headers.get(name, "") for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
    for secret in filter(None, secrets):
        try:
            Webhook(secret).verify(body, given, json_parse=False)
        except (WebhookVerificationError, ValueError):
            continue  # ValueError: a body that is no UTF-8, a signature that is no base64
        return given["webhook-id"]
    raise WrongSignature
