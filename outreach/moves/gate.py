"""The gate: the last moment at which a mail can be stopped, and the row that says it may have gone out.

It holds alone. With the job lock and the claims switched off, the lock on the message, the check that follows it and
the partial unique index on intents still let one try through for a step and address.
"""

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction

from outreach.moves.events import Kind, Layer, tell

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


class Facts(NamedTuple):
    """What the database says about a message at the gate. Times are the database's."""

    status: str
    claim: int | None
    campaign: int
    ours: bool
    lease_runs: bool
    sending_on: bool
    running: bool
    enrolled: bool
    suppressed: bool
    already: bool
    same_content: bool
    quiet_until: dt.datetime | None
    opens_at: dt.datetime | None
    pace: int | None
    day: dt.date
    tomorrow: dt.datetime


class Verdict(NamedTuple):
    """Why a message is stopped, and what becomes of it: `after` is its new status, None where it is not ours to say."""

    reason: str
    after: str | None
    due_at: dt.datetime | None = None


def begin(*, token: uuid.UUID, message_id: int, worker: str, mail_id: str, digest: str) -> Begun | Refused:
    """Commit the intent to send a claimed message, or say why it must not leave. Opens a transaction.

    Locks claim, message and recipient, in this order. The locks prove that no reaper, no other gate and no suppression
    of this address is between its check and its commit; they cost such a one a few milliseconds. The facts are read in
    the next statement (sql/gate.sql), for a statement's snapshot is older than the locks it waited for. The commit is
    synchronous, whatever the server's default: a crash must not forget the intent.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(AT_GATE, {"token": token, "message": message_id, "quiet": settings.QUIET_PERIOD_H})
        row = cursor.fetchone()
        if row is None:
            return Refused("no such message", stop=True)
        facts = Facts(*row)
        verdict = judge(facts)
        if verdict is None and facts.pace is not None:
            cursor.execute(COUNT, {"campaign": facts.campaign, "day": facts.day, "pace": facts.pace})
            if cursor.fetchone() is None:
                verdict = Verdict("the day's pace is reached", "due", facts.tomorrow)
        if verdict is None:
            values: dict[str, Any] = {"message": message_id, "claim": facts.claim, "worker": worker}
            values |= {"mail_id": mail_id, "digest": digest}
            cursor.execute(BEGIN, values)
            (attempt,) = cursor.fetchone()
            if attempt is not None:
                return Begun(attempt)
            verdict = Verdict("a try of this step to this address may have gone out", "cancelled")
        if verdict.after is None:
            after = facts.status
        else:
            after = verdict.after
            cursor.execute(
                STOP,
                {"message": message_id, "after": after, "due_at": verdict.due_at, "reason": short(verdict)},
            )
        tell(
            kind=Kind.TURNED_AWAY,
            layer=Layer.GATE if facts.ours else Layer.CLAIM,
            worker=worker,
            message=message_id,
            claim=facts.claim,
            before=facts.status,
            after=after,
            reason=verdict.reason,
        )
    return Refused(verdict.reason, stop=verdict.reason in STOP_THE_SENDER or not facts.ours)


def judge(facts: Facts) -> Verdict | None:
    """Return why the message must not leave now, the gravest reason first; None where it may (but for the pace)."""
    if facts.status != "claimed" or not facts.ours:
        return Verdict("the claim is lost", None)
    if not facts.lease_runs:
        return Verdict("the lease has run out", None)
    if not facts.sending_on:
        return Verdict("sending is off", "due")
    if not facts.running:
        return Verdict("campaign is not running", "due")
    if facts.suppressed:
        return Verdict("the address wants no mail", "suppressed")
    if not facts.enrolled:
        return Verdict("the sequence was stopped", "cancelled")
    if facts.already:
        return Verdict("a try of this step to this address may have gone out", "cancelled")
    if facts.same_content:
        return Verdict("another campaign sent the same content", "cancelled")
    if facts.quiet_until is not None:
        return Verdict("quiet period", "due", facts.quiet_until)
    if facts.opens_at is not None:
        return Verdict("outside the sending window", "due", facts.opens_at)
    return None


def short(verdict: Verdict) -> str:
    """The reason as a message keeps it: only where it is given up."""
    return verdict.reason[:40] if verdict.after in ("suppressed", "cancelled") else ""


AT_GATE = "SELECT * FROM outreach_at_gate(%(token)s::uuid, %(message)s, %(quiet)s)"
BEGIN = """
    SELECT outreach_begin(%(message)s, %(claim)s, %(worker)s, %(mail_id)s, %(digest)s)
"""

# Guarded counter. The lock on the day's row makes gates of a paced campaign take turns for the rest of the transaction.
COUNT = """
    INSERT INTO outreach_campaignday AS counted (campaign_id, day, begun)
    SELECT %(campaign)s, %(day)s, 1 WHERE %(pace)s > 0
    ON CONFLICT (campaign_id, day) DO UPDATE SET begun = counted.begun + 1 WHERE counted.begun < %(pace)s
    RETURNING begun
"""

STOP = """
    WITH stopped AS (
        UPDATE outreach_message
           SET status = %(after)s, claim_id = NULL, reason = %(reason)s,
               due_at = coalesce(%(due_at)s::timestamptz, due_at)
         WHERE id = %(message)s
        RETURNING enrolment_id)
    UPDATE outreach_enrolment
       SET ended_at = clock_timestamp(), end_reason = %(after)s
      FROM stopped
     WHERE outreach_enrolment.id = stopped.enrolment_id AND ended_at IS NULL
       AND %(after)s IN ('suppressed', 'cancelled')
"""
