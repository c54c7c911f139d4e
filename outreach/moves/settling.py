"""Write down what came of a try: ledger, message, event, the next step and the CRM's copy, in one transaction.

The message follows the ledger, never the other way round. A report that comes after the reaper has put the try in doubt
is late evidence: it settles the doubt. One that comes after the try was settled, by whomever, is an event and nothing
else; a refused try is never reopened. Only that it went is still heard where a person had said that it did not, as long
as it has not begun again: a mail too few is asked for, a mail too many is complained about.
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
from outreach.models import Campaign, Enrolment, Suppression
from outreach.moves.alone import call_alone
from outreach.moves.events import Layer
from outreach.moves.suppression import suppress
from routing.models import Lead

log = logging.getLogger(__name__)


def settle(*, attempt_id: int, outcome: Outcome, worker: str, token: uuid.UUID | None = None) -> bool:
    """Record an outcome; False where it came too late to change anything. Opens a transaction, or is one call.

    A worker shows the token of the claim under which it began, evidence from elsewhere shows none. Locks the message,
    which every writer of its tries locks first: that proves that nobody settles or reaps the try meanwhile. The loser
    waits milliseconds, and then finds it settled.
    """
    values = settle_values(attempt_id=attempt_id, outcome=outcome, worker=worker, layer=Layer.SETTLE, token=token)
    if settled_alone(outcome):
        settled = call_alone(SETTLE, values)[0]
    else:
        with transaction.atomic(durable=True):
            settled = _settle(values, outcome)
    warn_of_a_foreign_token(settled, attempt_id=attempt_id, worker=worker)
    return bool(settled)


def warn_of_a_foreign_token(settled: bool | None, *, attempt_id: int, worker: str) -> None:
    """Where the settling function knew no such try under the token."""
    if settled is None:
        log.warning("settle refused attempt=%s worker=%s reason=foreign token", attempt_id, worker)


def settle_locked(*, attempt_id: int, outcome: Outcome, worker: str, layer: Layer) -> bool:
    """Record an outcome of a try whose message is locked. Call inside a transaction."""
    values = settle_values(attempt_id=attempt_id, outcome=outcome, worker=worker, layer=layer, token=None)
    return bool(_settle(values, outcome))


def settle_values(
    *, attempt_id: int, outcome: Outcome, worker: str, layer: Layer, token: uuid.UUID | None
) -> dict[str, Any]:
    waits = range(settings.SEND_ATTEMPTS_MOST) if outcome.verdict == "deferred" else ()
    values: dict[str, Any] = {"attempt": attempt_id, "token": token, "layer": layer.value, "worker": worker}
    values |= {"verdict": outcome.verdict, "phase": outcome.phase, "code": outcome.code, "fault": outcome.fault}
    values |= {"reply": outcome.reply[:1_000], "charged": outcome.charged}
    return values | {"waits": [backoff_s(attempts=attempts) for attempts in waits]}


def settled_alone(outcome: Outcome) -> bool:
    """Whether the settling function does all of it: it does not suppress a dead mailbox, nor fill fields in the CRM."""
    return outcome.fault != "mailbox" and not (outcome.verdict == "accepted" and settings.CRM_MAIL_FIELDS)


def _settle(values: dict[str, Any], outcome: Outcome) -> bool | None:
    """Record it with all that follows, inside a transaction; None where the token is not the try's own.

    Message, recipient and enrolments are locked in the order of the gate and of suppressions.
    """
    with connection.cursor() as cursor:
        cursor.execute(SETTLE, values)
        recorded, recipient_id, lead_id, campaign_id, order, sent_at = cursor.fetchone()
    if recorded and outcome.fault == "mailbox":
        suppress(
            recipient_id=recipient_id,
            reason=Suppression.Reason.BOUNCED,
            detail=f"{outcome.code} {outcome.reply}",
            worker=values["worker"],
            layer=Layer(values["layer"]),
        )
    if recorded and sent_at is not None and settings.CRM_MAIL_FIELDS:
        _tell_crm(lead_id=lead_id, campaign_id=campaign_id, order=order, sent_at=sent_at)
    return None if recorded is None else bool(recorded)


def end_enrolment(*, enrolment_id: int, reason: str) -> None:
    """End an enrolment that has not ended. Call inside a transaction."""
    Enrolment.objects.filter(pk=enrolment_id, ended_at=None).update(ended_at=Now(), end_reason=reason)


def backoff_s(*, attempts: int) -> float:
    """Seconds until a refused message is due again: doubling to a cap, with up to a fifth of jitter on top.

    Greylisting wants minutes, not seconds (RFC 6647, section 5). What was not charged comes back after the first wait.
    """
    wait = settings.SEND_BACKOFF_FIRST_S * 2 ** min(max(attempts - 1, 0), 20)
    return float(min(settings.SEND_BACKOFF_CAP_S, wait)) * (1 + random.random() / 5)


def _tell_crm(*, lead_id: int, campaign_id: int, order: int, sent_at: dt.datetime) -> None:
    """Have the CRM know of a mail that was sent, where its org has fields for that (CRM_MAIL_FIELDS).

    Only of a lead that it was or will be told of: one that waits for its first rep would become a record with nothing
    but these fields. What people wait for goes first.
    """
    uid = Lead.objects.filter(pk=lead_id, first_assigned_at__isnull=False).values_list("uid", flat=True).first()
    if uid is not None:
        campaign = Campaign.objects.values_list("name", flat=True).get(pk=campaign_id)
        fields = {"last_campaign": campaign, "last_campaign_step": order, "last_mailed_at": sent_at.isoformat()}
        outbox.enqueue(object="Lead", external_id=str(uid), fields=fields, priority=outbox.Priority.MASS)


SETTLE = """
    SELECT * FROM outreach_settle(
        %(attempt)s, %(token)s::uuid, %(verdict)s, %(phase)s, %(code)s, %(reply)s, %(fault)s, %(charged)s,
        %(waits)s::double precision[], %(layer)s, %(worker)s)
"""
