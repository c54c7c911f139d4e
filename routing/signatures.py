"""Tell whether a delivery is from the sender it claims to be from: Standard Webhooks 1.0, with two live secrets."""

import re
from collections.abc import Mapping, Sequence

from standardwebhooks import Webhook, WebhookVerificationError
from standardwebhooks.webhooks import EmptyWebhookSecretError

SIGNATURE = re.compile(r"(?<!\S)v1,[A-Za-z0-9+/]{43}=(?!\S)")


class WrongSignature(Exception):
    """The signature is missing, wrong or older than five minutes."""


def verify(*, body: bytes, headers: Mapping[str, str], secrets: Sequence[str]) -> str:
    """Return the delivery's event id (the webhook-id header) if one of the secrets signed these raw bytes.

    Raises WrongSignature, which says no more: whoever guesses learns nothing.
    """
    given = {name: headers.get(name, "") for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
    # The library gives up at the first signature it cannot read; a good one may stand behind it.
    given["webhook-signature"] = " ".join(SIGNATURE.findall(given["webhook-signature"]))
    for secret in filter(None, secrets):
        try:
            Webhook(secret).verify(body, given, json_parse=False)
        except (WebhookVerificationError, EmptyWebhookSecretError, ValueError):
            continue  # ValueError: a body that is no UTF-8, a secret that is no base64
        return given["webhook-id"]
    raise WrongSignature
