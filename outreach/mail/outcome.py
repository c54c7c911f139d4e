"""What became of one hand-over: taken, refused for now or for good, or nobody knows.

`outcome_of` is the one place that reads SMTP replies. Only silence after the end of the body is doubt; every refusal,
and every fault before that point, is definite: a relay must not keep a mail whose end it never saw (RFC 5321, 4.1.1.4).
"""

import re
from dataclasses import dataclass
from typing import Literal

from outreach.mail.storable import storable

Verdict = Literal["accepted", "deferred", "refused", "in_doubt"]
Fault = Literal["", "recipient", "mailbox", "content", "road", "sender"]

CREDENTIALS = (530, 534, 535, 538)
"""Replies about who we are (RFC 4954, section 6), whatever the command they answer."""
GONE = ("5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1")
"""Enhanced codes for an address that takes no mail from anybody (RFC 3463, RFC 7505)."""
ENHANCED = re.compile(r"[245]\.\d{1,3}\.\d{1,3}")


@dataclass(frozen=True)
class Outcome:
    """`fault` says whose: recipient, mailbox (the address is dead), content, road (the connection), sender (we).

    Whoever the reply came from, relay, provider or agent, it is kept as text that can be stored.
    """

    verdict: Verdict
    phase: str
    code: int | None = None
    reply: str = ""
    fault: Fault = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reply", storable(self.reply))

    @property
    def charged(self) -> bool:
        """It counts against the message; what is the relay's or our own fault does not."""
        return self.fault in ("recipient", "content")


def outcome_of(*, phase: str, code: int, reply: str) -> Outcome:
    """Read a reply that came in answer to `mail`, `rcpt`, `data` or `dot` (the end of the body)."""
    if phase == "dot" and 200 <= code < 300:
        return Outcome("accepted", "done", code, reply)
    if not 400 <= code < 600:  # nonsense: after the body it says nothing of the mail, before it nothing has left
        return Outcome("in_doubt" if phase == "dot" else "deferred", phase, code if code > 0 else None, reply, "road")
    if code == 421:
        return Outcome("deferred", phase, code, reply, "road")
    if code in CREDENTIALS:
        return Outcome("deferred", phase, code, reply, "sender")
    if phase == "mail":
        too_large = code == 552
        if too_large:
            return Outcome("refused", phase, code, reply, "content")
        return Outcome("deferred", phase, code, reply, "sender" if code >= 500 else "road")
    if phase == "rcpt":
        if code < 500:
            return Outcome("deferred", phase, code, reply, "recipient")
        return Outcome("refused", phase, code, reply, "mailbox" if is_dead(code, reply) else "recipient")
    return Outcome("deferred" if code < 500 else "refused", phase, code, reply, "content")


def is_dead(code: int, reply: str) -> bool:
    """The mailbox does not exist: by the enhanced code where there is one, else by the code alone."""
    enhanced = ENHANCED.match(reply.strip())
    return enhanced.group() in GONE if enhanced else code in (550, 551, 553)


def broken_off(*, phase: str, why: str) -> Outcome:
    """The connection broke or fell silent in this phase."""
    return Outcome("in_doubt" if phase == "dot" else "deferred", phase, None, why, "road")
