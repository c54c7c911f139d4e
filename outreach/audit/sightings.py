"""What a log says about one mail to one address, in one form for every kind of log."""

import re
from dataclasses import dataclass
from email.utils import parseaddr
from functools import lru_cache
from typing import Literal

from outreach.errors import BadAddress
from outreach.mail.addresses import wire_address

State = Literal["handed", "delivered", "deferred", "bounced", "dropped"]
PLAIN = re.compile(r"[a-z0-9!#$%&'*+/=?^_`{|}~.-]+@[a-z0-9-]+(\.[a-z0-9-]+)+")
NAMED_WORKER = re.compile(r".*[.]([a-z]{1,12}[-_]?\d{1,4})", re.IGNORECASE)
MAKE_MSGID = re.compile(r"\d{12,15}\.(\d+)\.\d{12,20}(\..*)?")
"""Python's email.utils.make_msgid: hundredths of a second, process id, a random number."""


class BadLine(ValueError):
    """A line that should say something about a mail and does not; the text says why."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One line's word on one mail: `handle` is the name that the source gives the mail, `mail_id` its Message-ID.

    For Postfix the handle is the queue id on `host`; `onward` is the id under which the next relay queued it. `at` is
    Unix time, None where the line has none.
    """

    address: str
    state: State
    road: Literal["postfix", "events"]
    at: float | None
    handle: str = ""
    mail_id: str = ""
    host: str = ""
    onward: str = ""
    worker: str = ""
    campaign: str = ""
    step: str = ""
    sender: str = ""
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Queued:
    """A fact about a Postfix queue id that another of its lines needs: its Message-ID, sender or client, or its end."""

    host: str
    handle: str
    at: float
    fact: Literal["mail_id", "sender", "client", "removed"]
    value: str


@lru_cache(maxsize=50_000)
def key_of(address: str) -> str:
    """The form in which addresses are compared: Rota's own. Raises BadLine for what is no address."""
    text = address.strip().strip("<>").strip()
    if " " in text or text.endswith(">"):
        text = parseaddr(address)[1]
    folded = text.lower()
    if PLAIN.fullmatch(folded) and not folded.rpartition("@")[2].startswith("xn--"):
        return folded
    try:
        return wire_address(text).key
    except BadAddress:
        if "@" not in text.strip("@"):
            raise BadLine(f"{text or 'nothing'} is no address") from None
        return folded


def bare(mail_id: str) -> str:
    """A Message-ID without its brackets."""
    return mail_id.strip().strip("<>").strip()


def worker_in(mail_id: str) -> str:
    """The worker that a Message-ID tells of: a numbered name before the @ (`5.3.w2@send-2`), a process, or nothing."""
    local, _, host = mail_id.partition("@")
    if made := MAKE_MSGID.fullmatch(local):
        return f"{host}:{made.group(1)}"
    named = NAMED_WORKER.fullmatch(local)
    return f"{named.group(1)}@{host}" if named and host else ""
