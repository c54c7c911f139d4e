"""What became of one hand-over: taken, refused for now or for good, or nobody knows.

`outcome_of` is the one place that reads SMTP replies. Only silence after the end of the body is doubt; every refusal,
and every fault before that point, is definite: a relay must not keep a mail whose end it never saw (RFC 5321, 4.1.1.4).
"""

from dataclasses import dataclass
from typing import Literal

from outreach.mail.refusals import ENHANCED, about
from outreach.mail.storable import storable

Verdict = Literal["accepted", "deferred", "refused", "in_doubt"]
Fault = Literal["", "recipient", "mailbox", "content", "road", "sender", "policy"]

CREDENTIALS = (530, 534, 535, 538)
"""Replies about who we are (RFC 4954, section 6), whatever the command they answer."""


@dataclass(frozen=True)
class Outcome:
    """`fault` says whose: recipient, mailbox (the address is dead), content, road (the connection), sender (we), policy
    (the rules of whoever answered).

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
        """It counts against the message; what is the relay's or our own fault does not.

        What somebody's rules refuse does, though as a rule it is our own fault: it may be this mail alone that they
        refuse, which must not stop all others for ever.
        """
        return self.fault in ("recipient", "content", "policy")

    @property
    def stops_sending(self) -> bool:
        """The next mail would fare no better: nobody sends for a while."""
        return self.fault in ("sender", "policy")


def outcome_of(*, phase: str, code: int, reply: str) -> Outcome:
    """Read a reply that came in answer to `mail`, `rcpt`, `data` or `dot` (the end of the body).

    Whom a refusal is about, `refusals` says. What the relay holds against us is refused for now, and sending stops; a
    mailbox that does not exist is refused for good, without an enhanced code in answer to `rcpt` only.
    """
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
    whom = about(code=code, reply=reply)
    if whom == "us":
        return Outcome("deferred", phase, code, reply, "policy")
    if whom == "mailbox" and (phase == "rcpt" or ENHANCED.match(reply.strip())):
        return Outcome("refused", phase, code, reply, "mailbox")
    fault: Fault = "recipient" if phase == "rcpt" else "content"
    return Outcome("deferred" if code < 500 else "refused", phase, code, reply, fault)


def broken_off(*, phase: str, why: str) -> Outcome:
    """The connection broke or fell silent in this phase."""
    return Outcome("in_doubt" if phase == "dot" else "deferred", phase, None, why, "road")
