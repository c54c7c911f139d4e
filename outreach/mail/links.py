"""The link by which somebody says: no more. It names a recipient, signed; it does not expire and needs no login."""

from urllib.parse import quote

from django.conf import settings
from django.core import signing

SALT = "outreach.unsubscribe"


def unsubscribe_url(*, recipient_id: int) -> str:
    """The address that goes into the mail and its List-Unsubscribe header (RFC 8058)."""
    token = signing.Signer(salt=SALT).sign(str(recipient_id))
    return f"{settings.PUBLIC_URL.rstrip('/')}/unsubscribe/{quote(token, safe='')}"


def recipient_of(token: str) -> int | None:
    """The recipient a token names; None where the token is not ours."""
    try:
        return int(signing.Signer(salt=SALT).unsign(token))
    except (signing.BadSignature, ValueError):
        return None
