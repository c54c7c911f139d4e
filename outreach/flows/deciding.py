"""Decide about mails in doubt, one at a time or many: each in a transaction of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from outreach.errors import TooEarly, WrongState
from outreach.models import Message, SendAttempt
from outreach.moves.doubt import it_did_not_go, it_went


@dataclass
class Decided:
    """How many were decided, how many still have to wait, and how many were not in doubt any more."""

    done: int = 0
    too_early: int = 0
    gone: int = 0


def decide(*, message_ids: Sequence[int], went: bool, by: str, reason: str = "") -> Decided:
    """Say of these messages that they went, or that they did not and are to be sent again.

    Raises ReasonMissing for the latter without a reason. In the order of ids; somebody else's decision is left alone.
    """
    decided = Decided()
    for attempt_id in doubtful(message_ids):
        try:
            if went:
                it_went(attempt_id=attempt_id, by=by, reason=reason)
            else:
                it_did_not_go(attempt_id=attempt_id, by=by, reason=reason)
            decided.done += 1
        except TooEarly:
            decided.too_early += 1
        except WrongState:
            continue
    decided.gone = len(message_ids) - decided.done - decided.too_early
    return decided


def doubtful(message_ids: Sequence[int]) -> list[int]:
    """The tries in doubt of these messages; a message has one at most."""
    tries = SendAttempt.objects.filter(message_id__in=message_ids, status=SendAttempt.Status.IN_DOUBT)
    tries = tries.filter(message__status=Message.Status.IN_DOUBT)
    return list(tries.order_by("message_id").values_list("pk", flat=True))
