"""The gate: the last moment at which a mail can be stopped, and the row that says it may have gone out.

It holds alone. With the job lock and the claims switched off, the lock on the message, the check that follows it and
the partial unique index on intents still let one try through for a step and address.
"""

import uuid
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from outreach.moves.alone import call_alone

STOP_THE_SENDER = frozenset({"sending is off", "campaign is not running"})


@dataclass(frozen=True)
class Begun:
    """The intent is committed: hand the mail over, once, and settle this attempt."""

    attempt: int


@dataclass(frozen=True)
class Refused:
    """The mail must not leave. `stop`: nor may any other of this batch."""

    reason: str
    stop: bool = False


@dataclass(frozen=True)
class Intent:
    """The message that is to leave and the mail that was made of it. The subject is kept where the CRM will be told."""

    message_id: int
    mail_id: str
    digest: str
    subject: str = ""


def begin(*, token: uuid.UUID, intent: Intent, worker: str) -> Begun | Refused:
    """Commit the intent to send a claimed message, or say why it must not leave. One call and one transaction.

    Locks claim, message and recipient, in this order. The locks prove that no reaper, no other gate and no suppression
    of this address is between its check and its commit; they cost such a one a few milliseconds. The facts are read in
    the next statement (sql/gate.sql), for a statement's snapshot is older than the locks it waited for. The commit is
    synchronous, whatever the server's default, and comes before the answer.
    """
    return answer_of(*call_alone(GATE, gate_values(token=token, intent=intent, worker=worker)))


def gate_values(*, token: uuid.UUID, intent: Intent, worker: str) -> dict[str, Any]:
    values: dict[str, Any] = {"token": token, "message": intent.message_id, "quiet": settings.QUIET_PERIOD_H}
    values |= {"worker": worker, "mail_id": intent.mail_id, "digest": intent.digest, "subject": intent.subject}
    return values


def answer_of(attempt: int | None, reason: str, ours: bool) -> Begun | Refused:
    """What the gate's function returned."""
    if attempt is not None:
        return Begun(attempt)
    return Refused(reason, stop=reason in STOP_THE_SENDER or not ours)


GATE = """
    SELECT * FROM outreach_gate(%(token)s::uuid, %(message)s, %(quiet)s, %(worker)s, %(mail_id)s, %(digest)s,
                                %(subject)s)
"""
