"""Reports on mails that left, in one form, whoever wrote them."""

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from outreach.errors import BadAddress, BadReport
from outreach.mail.addresses import wire_address
from outreach.mail.storable import storable
from outreach.models import ProviderEvent

Kind = ProviderEvent.Kind
WORDS = {
    **{kind.value: kind for kind in Kind if kind != Kind.OTHER},
    "accepted": Kind.SENT,
    "bounce": Kind.BOUNCED,
    "complaint": Kind.COMPLAINED,
    "spam": Kind.COMPLAINED,
    "dropped": Kind.REJECTED,
    "failed": Kind.REJECTED,
    "open": Kind.OPENED,
    "click": Kind.CLICKED,
    "reply": Kind.REPLIED,
    "unsubscribe": Kind.UNSUBSCRIBED,
}
SOFT = ("soft", "temporary", "transient")
EARLIEST = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
AHEAD_MOST = dt.timedelta(days=1)
"""How far the clock of whoever reports may be ahead of ours."""


@dataclass(frozen=True)
class Report:
    """One thing that was reported of a mail: by its Message-ID, by its address, or by both. Its texts can be stored."""

    source: str
    event_id: str
    kind: ProviderEvent.Kind
    mail_id: str = ""
    address: str = ""
    occurred_at: dt.datetime | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        for name in ("event_id", "mail_id", "address", "detail"):
            object.__setattr__(self, name, storable(getattr(self, name)))


def read_report(said: Any, *, source: str) -> Report:
    """Read {"event", "message_id", "email", "timestamp", "id", "bounce_type", "reason"}; more is ignored.

    An event and one of message_id and email are needed. Raises BadReport, which says what is wrong without the values.
    """
    try:
        return _read(said, source)
    except RecursionError:
        raise BadReport("It is nested out of all proportion.") from None


def _read(said: Any, source: str) -> Report:
    if not isinstance(said, Mapping):
        raise BadReport("Each should be a JSON object.")
    kind = WORDS.get(str(said.get("event", "")).strip().lower())
    if kind is None:
        raise BadReport(f"event should be one of {', '.join(sorted(WORDS))}.")
    if kind == Kind.BOUNCED and str(said.get("bounce_type", "")).lower() in SOFT:
        kind = Kind.SOFT_BOUNCED
    mail_id, address = mail_id_in(said.get("message_id")), address_in(said.get("email"))
    if not mail_id and not address:
        raise BadReport("message_id or a usable email is needed.")
    event_id = text_in(said.get("id"))
    if len(event_id) > 200:
        raise BadReport("id should have 200 characters at most.")
    return Report(
        source=source,
        event_id=event_id or digest_of(said),
        kind=kind,
        mail_id=mail_id,
        address=address,
        occurred_at=moment_in(said.get("timestamp")),
        detail=text_in(said.get("reason"))[:500],
    )


def digest_of(said: Any) -> str:
    """An event id for a report that has none: all it says."""
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def text_in(given: Any) -> str:
    """What is reported, as a text that can be stored: one odd character in a bounce does not lose the bounce."""
    return storable(str(given or "")).strip()


def mail_id_in(given: Any) -> str:
    """A Message-ID in its angle brackets, with or without which it is reported."""
    text = text_in(given).strip("<>")
    return f"<{text}>" if text and len(text) <= 318 else ""


def address_in(given: Any) -> str:
    """The key by which a reported address is compared; empty where it is none."""
    try:
        return wire_address(text_in(given)).key
    except BadAddress:
        return ""


def moment_in(given: Any) -> dt.datetime | None:
    """When it was, as reported: ISO 8601, taken for UTC where it names no zone. None where it is not to be believed."""
    try:
        moment = parse_datetime(str(given or ""))
    except ValueError:
        return None
    return believed(timezone.make_aware(moment, dt.UTC) if moment and timezone.is_naive(moment) else moment)


def believed(moment: dt.datetime | None) -> dt.datetime | None:
    """A moment at which a mail can have been about; None for any other: then the time of its arrival stands.

    The first and last days of the calendar, in some zone, are times that cannot even be shown in ours.
    """
    return moment if moment and EARLIEST <= moment <= timezone.now() + AHEAD_MOST else None
