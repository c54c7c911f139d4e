"""Make one mail out of a step and a lead: the same Message-ID at every try, one recipient, a way out in one click.

Whatever would let a value grow into a header of its own is refused here, when the campaign is launched and again when
the mail is made; only the lead concerned is left out.
"""

import hashlib
import uuid
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import format_datetime
from typing import Any

from django.utils import timezone

from outreach.errors import BadAddress, BadHeader
from outreach.mail.addresses import wire_address
from outreach.mail.templating import Text

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
    """Write the mail. Raises BadAddress or BadHeader for what can never be sent; the caller gives this one up."""
    to = wire_address(address)
    sent_from = wire_address(sender.address)
    if sent_from.needs_utf8:
        raise BadAddress("The sender's address must be ASCII before the @.")
    text = body.render(values)
    if way_out not in text:
        text = f"{text.rstrip()}\n\n-- \nNo more mails like this: {way_out}\n"
    mail = EmailMessage(policy=SMTPUTF8 if to.needs_utf8 else SMTP.clone(cte_type="7bit"))
    try:
        title = one_line(subject.render(values))[:SUBJECT_MOST]
        mail["From"] = address_header(one_line(sender.name), sent_from.text)
        mail["To"] = address_header("", to.text)
        mail["Subject"] = title
        mail["Date"] = format_datetime(timezone.now())
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(text, cte=None if to.needs_utf8 else best_cte(text))
        mail_id = mail_id_of(step_id=step_id, key=to.key, sender=sent_from.text)
        data = long_headers(mail_id=mail_id, way_out=way_out) + mail.as_bytes()
    except BadHeader:
        raise
    except (ValueError, LookupError, IndexError) as fault:  # the email package refuses line breaks in headers
        raise BadHeader(type(fault).__name__) from fault
    return Mail(sent_from.text, to.text, mail_id, data, to.needs_utf8, title)


def long_headers(*, mail_id: str, way_out: str) -> bytes:
    """Headers that must stay whole: the email package would break or encode them once they are long."""
    lines = (
        f"Message-ID: {mail_id}",
        f"List-Unsubscribe: <{one_line(way_out)}>",
        "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
    )
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def one_line(text: str) -> str:
    """The text, if it can stand in a header. Raises BadHeader for control characters: `Hi\\r\\nBcc: everybody`."""
    if any(character < " " or character in "\x7f\x85\u2028\u2029" for character in text):
        raise BadHeader
    return text


def address_header(name: str, address: str) -> Address:
    user, _, domain = address.rpartition("@")
    return Address(display_name=name, username=user.strip('"'), domain=domain)


def best_cte(text: str) -> str:
    """7bit where the text allows it, so that a mail can be read on the wire; quoted-printable where not."""
    return "7bit" if text.isascii() and all(len(line) < 900 for line in text.splitlines()) else "quoted-printable"
