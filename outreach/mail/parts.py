"""A composed mail taken apart again, for whoever hands it over in another way than SMTP's."""

import email
from dataclasses import dataclass
from email.policy import SMTPUTF8

from outreach.mail.compose import Mail

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
    return Parts(str(read["From"]), mail.recipient, str(read["Subject"]), read.get_content(), mail.mail_id, headers)
