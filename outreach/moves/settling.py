"""Write down what came of a try: ledger, message, event, the next step and the CRM's copy, in one transaction.

The message follows the ledger, never the other way round. A report that comes after the reaper has put the try in doubt
is late evidence: it settles the doubt. One that comes after the try was settled, by whomever, is an event and nothing
else; a refused try is never reopened.
"""

import logging
import random
import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
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
    with transaction.atomic(durable=True):
        own = SendAttempt.objects.filter(pk=attempt_id, **({"claim__token": token} if token else {}))
        message_id = own.values_list("message_id", flat=True).first()
        if message_id is None:
            log.warning("settle refused attempt=%s worker=%s reason=foreign token", attempt_id, worker)
            return False
        return settle_locked(
            message=Message.objects.select_for_update(no_key=True).get(pk=message_id),
            attempt_id=attempt_id,
            outcome=outcome,
            worker=worker,
            layer=Layer.SETTLE,
        )


def settle_locked(*, message: Message, attempt_id: int, outcome: Outcome, worker: str, layer: Layer) -> bool:
    """Record an outcome of a try whose message is locked. Call inside a transaction."""
    attempt = SendAttempt.objects.get(pk=attempt_id)  # a new statement: it sees what the lock waited for
    late = attempt.status == Try.IN_DOUBT
    told: dict[str, Any] = {
        "worker": worker,
        "layer": layer,
        "claim": attempt.claim_id,
        "attempt": attempt.pk,
        "message": message.pk,
    }
    if attempt.status not in SendAttempt.UNSETTLED or (late and outcome.verdict == "in_doubt"):
        reason = f"{outcome.verdict} reported, was {attempt.status}"
        tell(kind=Kind.LATE, before=message.status, after=message.status, reason=reason, **told)
        return False
    before = message.status
    enrolment = Enrolment.objects.get(pk=message.enrolment_id)
    _settle_attempt(attempt, outcome)
    if outcome.verdict == "accepted":
        message.status, kind = Message.Status.SENT, Kind.SENT
    elif outcome.verdict == "in_doubt":
        message.status, kind = Message.Status.IN_DOUBT, Kind.IN_DOUBT
    elif outcome.verdict == "deferred":
        kind = Kind.DEFERRED
        _put_off(message, enrolment, outcome)
    else:
        message.status, kind = Message.Status.FAILED, Kind.REFUSED
        message.reason = f"refused by {outcome.fault or 'relay'}"
    _store(message)
    reason = f"{outcome.phase} {outcome.code or ''} {outcome.fault}".strip() + (" (late)" if late else "")
    tell(kind=kind, before=before, after=message.status, reason=reason, **told)
    if outcome.fault == "mailbox":
        suppress(
            recipient_id=message.recipient_id,
            reason=Suppression.Reason.BOUNCED,
            detail=f"{outcome.code} {outcome.reply}",
            worker=worker,
            layer=layer,
        )
    if message.status == Message.Status.SENT:
        _go_on(message, enrolment)
    elif message.status in Message.GIVEN_UP:
        bounced = outcome.fault == "mailbox"
        end_enrolment(enrolment_id=enrolment.pk, reason=Enrolment.EndReason.BOUNCED if bounced else "failed")
    return True


def end_enrolment(*, enrolment_id: int, reason: str) -> None:
    """End an enrolment that has not ended. Call inside a transaction."""
    Enrolment.objects.filter(pk=enrolment_id, ended_at=None).update(ended_at=Now(), end_reason=reason)


def _settle_attempt(attempt: SendAttempt, outcome: Outcome) -> None:
    verdict = Try(outcome.verdict)
    attempt.status = verdict
    SendAttempt.objects.filter(pk=attempt.pk, status__in=SendAttempt.UNSETTLED).update(
        status=verdict,
        settled_at=None if verdict == Try.IN_DOUBT else Now(),
        phase=outcome.phase,
        code=outcome.code,
        reply=outcome.reply[:1_000],
    )


def _put_off(message: Message, enrolment: Enrolment, outcome: Outcome) -> None:
    """Due again after a refusal for now, unless it was refused too often or its sequence was stopped meanwhile."""
    message.attempts += outcome.charged
    if enrolment.ended_at is not None:
        message.status, message.reason = Message.Status.CANCELLED, "the sequence was stopped"
    elif message.attempts >= settings.SEND_ATTEMPTS_MOST:
        message.status, message.reason = Message.Status.FAILED, "refused for now too often"
    else:
        message.status = Message.Status.DUE


def _store(message: Message) -> None:
    due = message.status == Message.Status.DUE
    Message.objects.filter(pk=message.pk).update(
        status=message.status,
        claim=None,
        attempts=message.attempts,
        reason=message.reason,
        sent_at=Now() if message.status == Message.Status.SENT else None,
        due_at=Now() + timedelta(seconds=backoff_s(attempts=message.attempts)) if due else F("due_at"),
    )


def backoff_s(*, attempts: int) -> float:
    """Seconds until a refused message is due again: doubling to a cap, with up to a fifth of jitter on top.

    Greylisting wants minutes, not seconds (RFC 6647, section 5). What was not charged comes back after the first wait.
    """
    wait = settings.SEND_BACKOFF_FIRST_S * 2 ** min(max(attempts - 1, 0), 20)
    return float(min(settings.SEND_BACKOFF_CAP_S, wait)) * (1 + random.random() / 5)


def _go_on(message: Message, enrolment: Enrolment) -> None:
    """After a mail was sent: plan the next step or complete the sequence, and have the CRM know."""
    with connection.cursor() as cursor:
        cursor.execute(GO_ON, {"message": message.pk, "enrolment": enrolment.pk})
        uid, campaign, order, sent_at = cursor.fetchone()
    fields = {"last_campaign": campaign, "last_campaign_step": order, "last_mailed_at": sent_at.isoformat()}
    outbox.enqueue(object="Lead", external_id=str(uid), fields=fields)


GO_ON = """
    WITH sent AS (
        SELECT message.*, step."order"
          FROM outreach_message message JOIN outreach_step step ON step.id = message.step_id
         WHERE message.id = %(message)s),
    next AS (
        SELECT id, delay FROM outreach_step
         WHERE campaign_id = (SELECT campaign_id FROM sent) AND "order" > (SELECT "order" FROM sent)
         ORDER BY "order" LIMIT 1),
    planned AS (
        INSERT INTO outreach_message (campaign_id, enrolment_id, step_id, recipient_id, due_at)
        SELECT sent.campaign_id, sent.enrolment_id, next.id, sent.recipient_id, sent.sent_at + next.delay
          FROM sent, next, outreach_enrolment enrolment
         WHERE enrolment.id = sent.enrolment_id AND enrolment.ended_at IS NULL
        ON CONFLICT (enrolment_id, step_id) DO NOTHING),
    completed AS (
        UPDATE outreach_enrolment SET ended_at = clock_timestamp(), end_reason = 'completed'
         WHERE id = %(enrolment)s AND ended_at IS NULL AND NOT EXISTS (SELECT FROM next))
    SELECT lead.uid, campaign.name, sent."order", sent.sent_at
      FROM sent
      JOIN outreach_campaign campaign ON campaign.id = sent.campaign_id
      JOIN outreach_enrolment enrolment ON enrolment.id = sent.enrolment_id
      JOIN routing_lead lead ON lead.id = enrolment.lead_id
"""
