"""Stop writing to somebody: an unsubscribe, a bounce, a complaint, a reply, a conversion."""

from django.db import connection, transaction
from django.db.models.functions import Now

from outreach.models import Enrolment, Recipient, Suppression
from outreach.moves.events import Layer


def suppress(
    *, recipient_id: int, reason: Suppression.Reason, detail: str = "", worker: str, layer: Layer = Layer.PERSON
) -> bool:
    """Write to this address no more, claimed messages included; False where it was suppressed before.

    Call inside a transaction. The lock on the recipient proves that no gate for it is between its check and its commit:
    whoever comes after our commit sees the suppression. It costs a gate or another suppression of the same address a
    few milliseconds. Messages are skipped where a gate or a settlement holds them, for those wait for our lock, or will
    come to the gate: the gate is the net, this spares it the work.
    """
    Recipient.objects.select_for_update(no_key=True).get(pk=recipient_id)
    with connection.cursor() as cursor:
        cursor.execute(SUPPRESS, {"recipient": recipient_id, "reason": reason.value, "detail": detail[:500]})
        new = cursor.rowcount == 1
    stop_messages(
        recipient_id=recipient_id, after="suppressed", reason=reason.value, end="suppressed", worker=worker, layer=layer
    )
    return new


def suppress_address(*, key: str, reason: Suppression.Reason, detail: str, worker: str) -> int:
    """Suppress an address by its key, known or not; return the suppression that holds. Call inside a transaction."""
    Recipient.objects.bulk_create([Recipient(key=key)], ignore_conflicts=True)
    recipient_id = Recipient.objects.values_list("pk", flat=True).get(key=key)
    suppress(recipient_id=recipient_id, reason=reason, detail=detail, worker=worker)
    return Suppression.objects.values_list("pk", flat=True).get(recipient_id=recipient_id, lifted_at=None)


def lift(*, recipient_id: int, because: str) -> bool:
    """Write to this address again, as a person asked; False where it is not suppressed. Call inside a transaction."""
    current = Suppression.objects.filter(recipient_id=recipient_id, lifted_at=None)
    return current.update(lifted_at=Now(), lifted_because=because) == 1


def stop_sequence(*, enrolment_id: int, reason: Enrolment.EndReason, worker: str) -> bool:
    """End one enrolment: it replied, converted or was taken out. False where it had ended. Opens a transaction.

    What has begun cannot be stopped; what has not is cancelled here, or at the gate.
    """
    with transaction.atomic(durable=True):
        enrolment = Enrolment.objects.get(pk=enrolment_id)
        Recipient.objects.select_for_update(no_key=True).get(pk=enrolment.recipient_id)
        if Enrolment.objects.filter(pk=enrolment_id, ended_at=None).exists():
            stop_messages(
                recipient_id=enrolment.recipient_id,
                enrolment_id=enrolment_id,
                after="cancelled",
                reason=reason.value,
                end=reason.value,
                worker=worker,
                layer=Layer.PERSON,
            )
            return True
    return False


def stop_messages(
    *, recipient_id: int, after: str, reason: str, end: str, worker: str, layer: Layer, enrolment_id: int | None = None
) -> None:
    """Take what is not begun out of an address's sequences, or out of one of them. Call inside a transaction."""
    values = {"recipient": recipient_id, "enrolment": enrolment_id, "after": after, "reason": reason, "end": end}
    with connection.cursor() as cursor:
        cursor.execute(STOP, {**values, "worker": worker, "layer": layer.value})


SUPPRESS = """
    INSERT INTO outreach_suppression (recipient_id, reason, detail) VALUES (%(recipient)s, %(reason)s, %(detail)s)
    ON CONFLICT (recipient_id) WHERE lifted_at IS NULL DO NOTHING
"""

STOP = """
    WITH open AS MATERIALIZED (
        SELECT id, status, claim_id FROM outreach_message
         WHERE recipient_id = %(recipient)s AND status IN ('due', 'claimed')
           AND enrolment_id = coalesce(%(enrolment)s, enrolment_id)
         ORDER BY id FOR NO KEY UPDATE SKIP LOCKED),
    stopped AS (
        UPDATE outreach_message SET status = %(after)s, claim_id = NULL, reason = %(reason)s FROM open
         WHERE outreach_message.id = open.id),
    told AS (
        INSERT INTO outreach_outreachevent (kind, layer, worker, message_id, claim_id, before, after, reason)
        SELECT 'stopped', %(layer)s, %(worker)s, id, claim_id, status, %(after)s, %(reason)s FROM open)
    UPDATE outreach_enrolment SET ended_at = clock_timestamp(), end_reason = %(end)s
     WHERE recipient_id = %(recipient)s AND ended_at IS NULL AND id = coalesce(%(enrolment)s, id)
"""
