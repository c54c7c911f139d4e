"""Make one mail out of a step and a lead: the same Message-ID at every try, one recipient, a way out in one click.

Whatever would let a value grow into a header of its own is refused here, when the campaign is launched and again when
the mail is made; only the lead concerned is left out.
"""

import hashlib
import uuid
from dataclasses import dataclass
from email.utils import format_datetime
from typing import Any

from django.utils import timezone

from outreach.errors import BadAddress, BadTemplate
from outreach.mail.addresses import wire_address
from outreach.mail.templating import Text
from outreach.mail.writing import free_text, mailbox, one_line, written

NAMESPACE = uuid.UUID("5b8e1a52-6f0c-5f0e-9a51-3c9f5d1c7a10")
SUBJECT_MOST = 500


@dataclass(frozen=True)
class Sender:
    """Who the mail is from. The address is ASCII: relays and DKIM want it so."""

    name: str
    address: str


@dataclass(frozen=True)
class Mail:
    """What is handed over: one envelope, and the bytes between DATA and the final dot, lines ending in CRLF."""

    sender: str
    recipient: str
    mail_id: str
    data: bytes
    needs_utf8: bool
    subject: str = ""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def mail_id_of(*, step_id: int, key: str, sender: str) -> str:
    """The Message-ID of a step for an address. Every try has the same, so that copies and bounces can be matched."""
    return f"<{uuid.uuid5(NAMESPACE, f'{step_id} {key}')}@{sender.rpartition('@')[2]}>"


def compose(
    *, step_id: int, subject: Text, body: Text, values: dict[str, Any], sender: Sender, address: str, way_out: str
) -> Mail:
    """Write the mail. Raises BadAddress, BadHeader or BadTemplate for what can never be sent; the caller gives this one
    up."""
    to = wire_address(address)
    sent_from = wire_address(sender.address)
    if sent_from.needs_utf8:
        raise BadAddress("The sender's address must be ASCII before the @.")
    text = body.render(values)
    if way_out not in text:
        text = f"{text.rstrip()}\n\n-- \nNo more mails like this: {way_out}\n"
    title = subject.render(values)[:SUBJECT_MOST]
    if not title.strip():
        raise BadTemplate("Its subject is empty for this lead.")
    mail_id = mail_id_of(step_id=step_id, key=to.key, sender=sent_from.text)
    headers = (
        ("Message-ID", mail_id),
        ("List-Unsubscribe", f"<{one_line(way_out)}>"),
        ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
        ("From", mailbox(sender.name, sent_from.text)),
        ("To", to.text),
        ("Subject", free_text(title)),
        ("Date", format_datetime(timezone.now())),
        ("Auto-Submitted", "auto-generated"),
    )
    data = written(headers, text, utf8=to.needs_utf8)
    return Mail(sent_from.text, to.text, mail_id, data, to.needs_utf8, title)
