"""A composed mail taken apart again, for whoever hands it over in another way than SMTP's."""

import email
from dataclasses import dataclass
from email.header import decode_header, make_header
from email.headerregistry import Address
from email.policy import SMTPUTF8
from email.utils import parseaddr

from outreach.mail.compose import Mail
from outreach.mail.writing import quoted

HEADERS = ("List-Unsubscribe", "List-Unsubscribe-Post", "Auto-Submitted")


@dataclass(frozen=True)
class Parts:
    """What a mail says, in plain texts. `headers` are those that must travel with it, beside the Message-ID."""

    sender: str
    recipient: str
    subject: str
    text: str
    mail_id: str
    headers: dict[str, str]


def parts_of(mail: Mail) -> Parts:
    """The parts of a mail, as its bytes say them."""
    read = email.message_from_bytes(mail.data, policy=SMTPUTF8)
    headers = {name: str(read[name]) for name in HEADERS}
    sender = sender_in(dict(read.raw_items())["From"])
    return Parts(sender, mail.recipient, str(read["Subject"]), read.get_content(), mail.mail_id, headers)


def sender_in(value: str) -> str:
    """Name and address as a From header says them.

    A name that looks encoded stays encoded: whoever reads an address reads encoded words, and would take the name
    itself for one. The email package reads a space into a name of several words.
    """
    line = "".join(value.splitlines())
    written, address = parseaddr(line)
    name = str(make_header(decode_header(written))) if "=?" in written else ""
    if not name or "=?" in name:
        return line
    return str(Address(display_name=name, addr_spec=address)) if is_even(name) else f"{quoted(name)} <{address}>"


def is_even(name: str) -> bool:
    """It has one space between words and no other, so that it reads the same without quotes."""
    return name == " ".join(name.split())
