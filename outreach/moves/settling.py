"""Write down what came of a try: ledger, message, event, the next step and the CRM's copy, in one transaction.

The message follows the ledger, never the other way round. A report that comes after the reaper has put the try in doubt
is late evidence: it settles the doubt. One that comes after the try was settled, by whomever, is an event and nothing
else; a refused try is never reopened.
"""

import datetime as dt
import logging
import random
import uuid
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from crmsync import outbox
from outreach.mail.outcome import Outcome
from outreach.models import Enrolment, Message, SendAttempt, Suppression
from outreach.moves.events import Kind, Layer, tell
from outreach.moves.suppression import suppress

log = logging.getLogger(__name__)
Try = SendAttempt.Status


def settle(*, attempt_id: int, outcome: Outcome, worker: str, token: uuid.UUID | None = None) -> bool:
    """Record an outcome; False where it came too late to change anything. Opens a transaction.

    A worker shows the token of the claim under which it began, evidence from elsewhere shows none. Locks the message,
    which every writer of its tries locks first: that proves that nobody settles or reaps the try meanwhile. The loser
    waits milliseconds, and then finds it settled.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(HOLD, {"attempt": attempt_id, "token": token})
        if not cursor.fetchone()[0]:
            log.warning("settle refused attempt=%s worker=%s reason=foreign token", attempt_id, worker)
            return False
        return settle_locked(attempt_id=attempt_id, outcome=outcome, worker=worker, layer=Layer.SETTLE)


def settle_locked(*, attempt_id: int, outcome: Outcome, worker: str, layer: Layer) -> bool:
    """Record an outcome of a try whose message is locked. Call inside a transaction, in a statement after the lock."""
    attempt = SendAttempt.objects.select_related("message__enrolment").get(pk=attempt_id)
    message, late = attempt.message, attempt.status == Try.IN_DOUBT
    before = message.status
    if attempt.status not in SendAttempt.UNSETTLED or (late and outcome.verdict == "in_doubt"):
        tell(
            kind=Kind.LATE,
            layer=layer,
            worker=worker,
            message=message.pk,
            claim=attempt.claim_id,
            attempt=attempt.pk,
            before=before,
            after=before,
            reason=f"{outcome.verdict} reported, was {attempt.status}",
        )
        return False
    kind = _decide(message, outcome)
    due = message.status == Message.Status.DUE
    values: dict[str, Any] = {"attempt": attempt_id, "verdict": outcome.verdict, "phase": outcome.phase}
    values |= {"code": outcome.code, "reply": outcome.reply[:1_000], "message": message.pk, "before": before}
    values |= {"after": message.status, "attempts": message.attempts, "reason": message.reason}
    values |= {"wait": backoff_s(attempts=message.attempts) if due else None}
    values |= {"kind": kind.value, "layer": layer.value, "worker": worker, "claim": attempt.claim_id}
    values["why"] = f"{outcome.phase} {outcome.code or ''} {outcome.fault}".strip() + (" (late)" if late else "")
    with connection.cursor() as cursor:
        cursor.execute(SETTLE, values | {"enrolment": message.enrolment_id})
        told = cursor.fetchone()
    _follow_up(message, outcome, worker=worker, layer=layer, told=told)
    return True


def _decide(message: Message, outcome: Outcome) -> Kind:
    """Give the message what the outcome makes of it, and name the event."""
    if outcome.verdict == "accepted":
        message.status = Message.Status.SENT
        return Kind.SENT
    if outcome.verdict == "in_doubt":
        message.status = Message.Status.IN_DOUBT
        return Kind.IN_DOUBT
    if outcome.verdict == "refused":
        message.status, message.reason = Message.Status.FAILED, f"refused by {outcome.fault or 'relay'}"
        return Kind.REFUSED
    message.attempts += outcome.charged
    if message.enrolment.ended_at is not None:
        message.status, message.reason = Message.Status.CANCELLED, "the sequence was stopped"
    elif message.attempts >= settings.SEND_ATTEMPTS_MOST:
        message.status, message.reason = Message.Status.FAILED, "refused for now too often"
    else:
        message.status = Message.Status.DUE
    return Kind.DEFERRED


def _follow_up(message: Message, outcome: Outcome, *, worker: str, layer: Layer, told: tuple[Any, ...] | None) -> None:
    """Suppress a dead mailbox, end the sequence of what was given up, go on after what was sent. In this lock order."""
    if outcome.fault == "mailbox":
        suppress(
            recipient_id=message.recipient_id,
            reason=Suppression.Reason.BOUNCED,
            detail=f"{outcome.code} {outcome.reply}",
            worker=worker,
            layer=layer,
        )
    if told is not None:
        _tell_crm(*told)
    elif message.status in Message.GIVEN_UP:
        bounced = outcome.fault == "mailbox"
        end_enrolment(enrolment_id=message.enrolment_id, reason=Enrolment.EndReason.BOUNCED if bounced else "failed")


def end_enrolment(*, enrolment_id: int, reason: str) -> None:
    """End an enrolment that has not ended. Call inside a transaction."""
    Enrolment.objects.filter(pk=enrolment_id, ended_at=None).update(ended_at=Now(), end_reason=reason)


def backoff_s(*, attempts: int) -> float:
    """Seconds until a refused message is due again: doubling to a cap, with up to a fifth of jitter on top.

    Greylisting wants minutes, not seconds (RFC 6647, section 5). What was not charged comes back after the first wait.
    """
    wait = settings.SEND_BACKOFF_FIRST_S * 2 ** min(max(attempts - 1, 0), 20)
    return float(min(settings.SEND_BACKOFF_CAP_S, wait)) * (1 + random.random() / 5)


def _tell_crm(uid: uuid.UUID, in_crm: bool, campaign: str, order: int, sent_at: dt.datetime) -> None:
    """Have the CRM know of a mail that was sent.

    Only where its org has fields for that (CRM_MAIL_FIELDS), and of a lead that it was or will be told of: one that
    waits for its first rep would become a record with nothing but these fields. What people wait for goes first.
    """
    if in_crm and settings.CRM_MAIL_FIELDS:
        fields = {"last_campaign": campaign, "last_campaign_step": order, "last_mailed_at": sent_at.isoformat()}
        outbox.enqueue(object="Lead", external_id=str(uid), fields=fields, priority=outbox.Priority.MASS)


HOLD = "SELECT outreach_hold_try(%(attempt)s, %(token)s::uuid)"
SETTLE = """
    SELECT * FROM outreach_settle(
        %(attempt)s, %(verdict)s, %(phase)s, %(code)s, %(reply)s, %(message)s, %(before)s, %(after)s, %(attempts)s,
        %(reason)s, %(wait)s::double precision, %(kind)s, %(layer)s, %(worker)s, %(claim)s, %(why)s, %(enrolment)s)
"""
