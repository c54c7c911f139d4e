"""Campaign mail through an agent's hands: the same claims, gate and ledger as for Rota's own senders."""

import datetime as dt
import uuid
from dataclasses import dataclass

from outreach.errors import ClaimLost, GateClosed, NotAllowed, NotFound
from outreach.flows.preparing import prepare
from outreach.mail.compose import Mail
from outreach.mail.outcome import Outcome
from outreach.models import Agent, Campaign, Claim, Message, SendAttempt
from outreach.moves.claims import Held, claim_batch, end_claim, renew
from outreach.moves.events import Kind, Layer, tell
from outreach.moves.gate import Begun, Intent, begin
from outreach.moves.sending import why_off
from outreach.moves.settling import settle
from outreach.moves.unsendable import give_up


@dataclass(frozen=True)
class MayLeave:
    """The intent is committed: hand this mail over once, before the lease ends, and settle the attempt."""

    attempt: int
    mail: Mail
    lease_until: dt.datetime


def claim_mail(*, agent: Agent, campaign_id: int | None, size: int, lease_s: float) -> Held | None:
    """Claim due mails of a campaign, or of the first running one that has any; None where nothing is due.

    Raises GateClosed while no mail may be sent at all, NotFound for a campaign that does not exist.
    """
    if off := why_off(worker=agent.worker):
        raise GateClosed(f"sending is off: {off}")
    running = Campaign.objects.running().order_by("pk")
    if campaign_id is not None:
        if not Campaign.objects.filter(pk=campaign_id).exists():
            raise NotFound("No campaign has this number.")
        running = running.filter(pk=campaign_id)
    for pk in list(running.values_list("pk", flat=True)):
        held = claim_batch(campaign_id=pk, worker=agent.worker, size=size, lease_s=lease_s)
        if held is not None:
            return held
    return None


def extend_mail(*, agent: Agent, token: uuid.UUID, lease_s: float) -> Claim:
    """Extend a claim of this agent. Raises ClaimLost where its lease has run out: stop."""
    own(agent=agent, token=token)
    if not renew(token=token, lease_s=lease_s):
        raise ClaimLost
    return Claim.objects.get(token=token)


def begin_mail(*, agent: Agent, token: uuid.UUID, message_id: int) -> MayLeave:
    """Pass the gate for one message, and get its mail. Raises GateClosed with the reason: then it must not leave.

    The mail is written before the gate, like for Rota's own senders; one that cannot be written is given up.
    """
    claim = own(agent=agent, token=token)
    if not Message.objects.filter(pk=message_id, campaign_id=claim.campaign_id).exists():
        raise NotFound("This claim's campaign has no such message.")
    one = Held(claim.pk, token, claim.campaign_id, agent.worker, (message_id,))
    prepared = next(prepare(held=one))
    if prepared.mail is None:
        give_up(token=token, message_id=message_id, worker=agent.worker, reason=prepared.problem)
        raise GateClosed(f"no mail can be made of it: {prepared.problem}")
    mail = prepared.mail
    intent = Intent(message_id=message_id, mail_id=mail.mail_id, digest=mail.digest, subject=mail.subject)
    gate = begin(token=token, intent=intent, worker=agent.worker)
    if not isinstance(gate, Begun):
        raise GateClosed(gate.reason)
    claim.refresh_from_db()
    return MayLeave(gate.attempt, mail, claim.lease_until)


def settle_mail(*, agent: Agent, token: uuid.UUID, attempt_id: int, outcome: Outcome) -> tuple[bool, SendAttempt]:
    """Record what came of a hand-over; False where it was settled before. Ends the claim with its last message."""
    claim = own(agent=agent, token=token)
    if not SendAttempt.objects.filter(pk=attempt_id, claim=claim).exists():
        raise NotFound("This claim began no such attempt.")
    recorded = settle(attempt_id=attempt_id, outcome=outcome, worker=agent.worker, token=token)
    if not Message.objects.filter(claim=claim).exists():
        end_claim(token=token)
    return recorded, SendAttempt.objects.select_related("message").get(pk=attempt_id)


def release_mail(*, agent: Agent, token: uuid.UUID, reason: str) -> int:
    """Give back what the claim holds unbegun; return how many mails that were."""
    own(agent=agent, token=token)
    return end_claim(token=token, reason=reason)


def own(*, agent: Agent, token: uuid.UUID) -> Claim:
    """The claim with this token. Raises NotFound, or NotAllowed (and says so in an event) if another worker has it."""
    claim = Claim.objects.filter(token=token).first()
    if claim is None:
        raise NotFound("No claim has this token.")
    if claim.worker != agent.worker:
        reason = "another worker's claim"
        tell(kind=Kind.TURNED_AWAY, layer=Layer.CLAIM, worker=agent.worker, claim=claim.pk, reason=reason)
        raise NotAllowed("Another worker holds this claim.")
    return claim
