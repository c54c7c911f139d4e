"""From one mail of a batch to the next: what came of the last is settled with the intent of the next, in one commit."""

import uuid
from dataclasses import dataclass

from outreach.mail.outcome import Outcome
from outreach.moves.alone import call_alone
from outreach.moves.events import Layer
from outreach.moves.gate import Begun, Intent, Refused, answer_of, gate_values
from outreach.moves.settling import settle_values, settled_alone, warn_of_a_foreign_token


@dataclass(frozen=True)
class Handed:
    """A mail that was handed over under a claim, and what came of it; not written down yet."""

    token: uuid.UUID
    attempt: int
    outcome: Outcome

    @property
    def may_wait(self) -> bool:
        """Whether it may be settled with the next intent: nothing follows from it but what one call does."""
        return self.outcome.verdict == "accepted" and settled_alone(self.outcome)


def settle_and_begin(*, handed: Handed, intent: Intent, worker: str) -> Begun | Refused:
    """Settle a mail, as `settle` does, and pass the gate for another message of its claim, as `begin` does.

    One call and one transaction: whoever is killed meanwhile has written both or neither. That the gate turns the next
    one away changes nothing for the last.
    """
    values = settle_values(
        attempt_id=handed.attempt, outcome=handed.outcome, worker=worker, layer=Layer.SETTLE, token=handed.token
    )
    values |= gate_values(token=handed.token, intent=intent, worker=worker)
    recorded, *answer = call_alone(SETTLE_AND_BEGIN, values)
    warn_of_a_foreign_token(recorded, attempt_id=handed.attempt, worker=worker)
    return answer_of(*answer)


SETTLE_AND_BEGIN = """
    SELECT * FROM outreach_settle_then_gate(
        %(attempt)s, %(verdict)s, %(phase)s, %(code)s, %(reply)s, %(fault)s, %(charged)s, %(waits)s::double precision[],
        %(layer)s, %(worker)s, %(token)s::uuid, %(message)s, %(quiet)s, %(mail_id)s, %(digest)s, %(subject)s)
"""
