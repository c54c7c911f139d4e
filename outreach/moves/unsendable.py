"""Give up a message that can never be sent: a bad address, a line break in a header, a value that went missing."""

import uuid

from django.db import transaction

from outreach.models import Claim, Enrolment, Message
from outreach.moves.events import Kind, Layer, tell
from outreach.moves.settling import end_enrolment


def give_up(*, token: uuid.UUID, message_id: int, worker: str, reason: str) -> bool:
    """Fail a claimed message that nothing can be made of, and end its sequence; False where it is not ours any more.

    Opens a transaction. Locks claim and message in the gate's order; the rest of the batch is not concerned.
    """
    with transaction.atomic(durable=True):
        claim = Claim.objects.select_for_update(no_key=True).filter(token=token, ended_at=None).first()
        if claim is None:
            return False
        mine = Message.objects.filter(pk=message_id, claim=claim, status=Message.Status.CLAIMED)
        message = mine.select_for_update(no_key=True).first()
        if message is None:
            return False
        mine.update(status=Message.Status.FAILED, claim=None, reason=reason[:40])
        end_enrolment(enrolment_id=message.enrolment_id, reason=Enrolment.EndReason.FAILED)
        tell(
            kind=Kind.STOPPED,
            layer=Layer.GATE,
            worker=worker,
            message=message_id,
            claim=claim.pk,
            before=Message.Status.CLAIMED,
            after=Message.Status.FAILED,
            reason=reason,
        )
    return True
