"""A person decides what became of a mail that nobody knows about. Usually it went: say so unless you know better."""

from datetime import datetime, timedelta

from django.db import connection, transaction

from outreach.errors import ReasonMissing, TooEarly, WrongState
from outreach.mail.outcome import Outcome
from outreach.mail.timing import longest_handover_s
from outreach.models import Message, SendAttempt
from outreach.moves.events import Kind, Layer, tell
from outreach.moves.settling import settle_locked

MARGIN_S = 60
"""On top of the longest hand-over: a relay's answer that was on its way when our side gave up."""


def unlocks_at(begun_at: datetime) -> datetime:
    """From when on "it did not go" may be said of a try begun then: no hand-over of it can still be going on."""
    return begun_at + timedelta(seconds=longest_handover_s() + MARGIN_S)


def it_went(*, attempt_id: int, by: str, reason: str = "") -> None:
    """Count a try in doubt as sent. Opens a transaction. Raises WrongState if it is not in doubt (any more)."""
    with transaction.atomic(durable=True):
        _locked(attempt_id)
        SendAttempt.objects.filter(pk=attempt_id).update(resolved_by=by, resolve_reason=reason)
        outcome = Outcome("accepted", "dot", None, "a person said it went")
        settle_locked(attempt_id=attempt_id, outcome=outcome, worker=by, layer=Layer.PERSON)


def it_did_not_go(*, attempt_id: int, by: str, reason: str) -> None:
    """Make the message of a try in doubt due again: this may mail somebody twice, so it asks why. Opens a transaction.

    Raises ReasonMissing; WrongState if it is not in doubt; TooEarly until the longest possible hand-over has passed
    since it began, for until then its worker, perhaps stopped, may still be about to hand it over.
    """
    if not reason.strip():
        raise ReasonMissing("Sending again may mail somebody twice.")
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        message = _locked(attempt_id)
        cursor.execute(
            DISPROVE, {"id": attempt_id, "by": by, "reason": reason, "wait": longest_handover_s() + MARGIN_S}
        )
        row = cursor.fetchone()
        if row is None:
            raise TooEarly
        again = Message.Status.DUE if message.enrolment.ended_at is None else Message.Status.CANCELLED
        Message.objects.filter(pk=message.pk, status=Message.Status.IN_DOUBT).update(
            status=again, reason="" if again == Message.Status.DUE else "the sequence was stopped"
        )
        tell(
            kind=Kind.RESOLVED,
            layer=Layer.PERSON,
            worker=by,
            message=message.pk,
            claim=row[0],
            attempt=attempt_id,
            before=Message.Status.IN_DOUBT,
            after=again,
            reason=reason,
        )


def _locked(attempt_id: int) -> Message:
    """The message, locked as every writer of its tries locks it, of a try that is in doubt."""
    known = SendAttempt.objects.filter(pk=attempt_id).values_list("message_id", flat=True)
    message = (
        Message.objects.select_for_update(no_key=True, of=("self",)).select_related("enrolment").get(pk=known.get())
    )
    if not SendAttempt.objects.filter(pk=attempt_id, status=SendAttempt.Status.IN_DOUBT).exists():
        raise WrongState("This try is not in doubt.")
    return message


DISPROVE = """
    UPDATE outreach_sendattempt
       SET status = 'disproved', settled_at = clock_timestamp(), resolved_by = %(by)s, resolve_reason = %(reason)s
     WHERE id = %(id)s AND status = 'in_doubt' AND begun_at < clock_timestamp() - make_interval(secs => %(wait)s)
    RETURNING claim_id
"""
