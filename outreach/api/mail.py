"""Campaign mail for external senders: claim, extend, begin, settle, release."""

import base64
import datetime as dt
import uuid
from typing import Literal

from django.conf import settings
from django.http import HttpRequest
from ninja import Field, Router, Schema

from outreach.api.bearer import agent_of
from outreach.api.fields import Id, Words
from outreach.api.once import DOCUMENTED, REFUSALS, once
from outreach.errors import BadReport
from outreach.flows import agents
from outreach.flows.feedback import read_all, take_all_in
from outreach.mail.outcome import Outcome, outcome_of
from outreach.mail.parts import parts_of
from outreach.models import Claim, Message

router = Router()


class ClaimMail(Schema):
    campaign: Id | None = Field(None, description="Its number; empty: the first running one with due mails.")
    size: int = Field(50, ge=1, le=500, description="Mails at most.")
    lease_s: float = Field(
        settings.CLAIM_LEASE_S, ge=1, le=settings.CLAIM_LEASE_S, description="How long they are yours, in seconds."
    )


class DueMail(Schema):
    message: int
    lead: int
    step: int
    due_at: dt.datetime


class MailClaim(Schema):
    claim: uuid.UUID | None = Field(
        None, description="The claim's token, to be shown from now on. Empty: none are due."
    )
    campaign: int | None = None
    lease_until: dt.datetime | None = None
    messages: list[DueMail] = []


class Lease(Schema):
    lease_s: float = Field(..., ge=1, le=settings.CLAIM_LEASE_S, description="From now on, in seconds.")


class Extended(Schema):
    lease_until: dt.datetime


class Why(Schema):
    reason: Words = Field("", max_length=200)


class Released(Schema):
    released: int = Field(..., description="How many were not begun and are free again.")


class MailText(Schema):
    """The mail. Send it as it is: `raw` is the whole of it in base64, the other fields say the same in parts."""

    message_id: str
    sender: str
    recipient: str
    envelope_from: str
    subject: str
    text: str
    headers: dict[str, str]
    raw: str


class MayLeave(Schema):
    attempt: int = Field(..., description="To be settled.")
    hand_over_until: dt.datetime = Field(..., description="Do not hand it over after that: somebody else may decide.")
    mail: MailText


class WhatCameOfIt(Schema):
    claim: uuid.UUID
    outcome: Literal["sent", "deferred", "refused", "in_doubt"] = Field(
        ...,
        description="sent: positively accepted. deferred: definitely refused for now, it is due again later. refused: "
        "definitely refused for good. in_doubt: no answer after the whole mail had left; no machine sends it again.",
    )
    fault: Literal["", "recipient", "mailbox", "content", "road", "sender", "policy"] = Field(
        "",
        description="Whose refusal it was. mailbox: the address is dead and is suppressed. road: the connection. "
        "policy: the rules of whoever answered.",
    )
    code: int | None = Field(None, ge=100, le=999, description="The relay's reply code.")
    reply: Words = Field("", max_length=1_000, description="The evidence: what the relay or provider answered.")


class Report(Schema):
    """What became of a mail later. Bounces, complaints and unsubscribes suppress; replies and conversions stop."""

    event: Words = Field(..., description="delivered, bounced, complained, unsubscribed, replied, converted, ...")
    message_id: Words | None = None
    email: Words | None = None
    id: Words | None = Field(None, max_length=200, description="Your own id of the event: told twice, it acts once.")
    timestamp: dt.datetime | None = None
    bounce_type: Words | None = Field(None, description="soft: the mailbox is not dead.")
    reason: Words | None = None


class Settled(Schema):
    recorded: bool = Field(..., description="false: it was settled before, and this report is kept as an event only.")
    attempt: str
    message: str


@router.post("/claims", response={200: MailClaim, **REFUSALS}, openapi_extra=DOCUMENTED, summary="Claim due mails")
@once
def claim(request: HttpRequest, body: ClaimMail) -> MailClaim:
    agent = agent_of(request, scope="mail")
    held = agents.claim_mail(agent=agent, campaign_id=body.campaign, size=body.size, lease_s=body.lease_s)
    if held is None:
        return MailClaim(claim=None)
    rows = Message.objects.filter(pk__in=held.messages).values_list("pk", "enrolment__lead_id", "step__order", "due_at")
    found = {pk: DueMail(message=pk, lead=lead, step=step, due_at=due) for pk, lead, step, due in rows}
    until = Claim.objects.values_list("lease_until", flat=True).get(token=held.token)
    messages = [found[pk] for pk in held.messages]
    return MailClaim(claim=held.token, campaign=held.campaign, lease_until=until, messages=messages)


@router.post("/claims/{token}/extend", response={200: Extended, **REFUSALS}, openapi_extra=DOCUMENTED)
@once
def extend(request: HttpRequest, token: uuid.UUID, body: Lease) -> Extended:
    agent = agent_of(request, scope="mail")
    return Extended(lease_until=agents.extend_mail(agent=agent, token=token, lease_s=body.lease_s).lease_until)


@router.post(
    "/claims/{token}/messages/{message}/begin",
    response={200: MayLeave, **REFUSALS},
    openapi_extra=DOCUMENTED,
    summary="Pass the gate for one mail, and get it",
)
@once
def begin(request: HttpRequest, token: uuid.UUID, message: Id) -> MayLeave:
    passed = agents.begin_mail(agent=agent_of(request, scope="mail"), token=token, message_id=message)
    parts = parts_of(passed.mail)
    text = MailText(
        message_id=parts.mail_id,
        sender=parts.sender,
        recipient=parts.recipient,
        envelope_from=passed.mail.sender,
        subject=parts.subject,
        text=parts.text,
        headers=parts.headers,
        raw=base64.b64encode(passed.mail.data).decode(),
    )
    return MayLeave(attempt=passed.attempt, hand_over_until=passed.lease_until, mail=text)


@router.post("/attempts/{attempt}/settle", response={200: Settled, **REFUSALS}, openapi_extra=DOCUMENTED)
@once
def settle(request: HttpRequest, attempt: Id, body: WhatCameOfIt) -> Settled:
    agent = agent_of(request, scope="mail")
    recorded, row = agents.settle_mail(agent=agent, token=body.claim, attempt_id=attempt, outcome=outcome(body))
    return Settled(recorded=recorded, attempt=row.status, message=row.message.status)


@router.post("/claims/{token}/release", response={200: Released, **REFUSALS}, openapi_extra=DOCUMENTED)
@once
def release(request: HttpRequest, token: uuid.UUID, body: Why) -> Released:
    agent = agent_of(request, scope="mail")
    return Released(released=agents.release_mail(agent=agent, token=token, reason=body.reason))


class Reports(Schema):
    events: list[Report] = Field(..., min_length=1, max_length=500)


class TakenIn(Schema):
    new: int
    known: int = Field(..., description="Reported before, by id or word for word.")
    acted: int = Field(..., description="Settled a doubt, suppressed an address or stopped a sequence.")


@router.post("/events", response={200: TakenIn, **REFUSALS}, openapi_extra=DOCUMENTED, summary="Report on sent mails")
@once
def events(request: HttpRequest, body: Reports) -> TakenIn:
    agent = agent_of(request, scope="mail")
    reports, bad = read_all([one.model_dump(exclude_none=True) for one in body.events], source=agent.worker)
    if bad:
        raise BadReport("; ".join(f"events.{place}: {why}" for place, why in bad[:20]))
    return TakenIn(**take_all_in(reports))


def outcome(said: WhatCameOfIt) -> Outcome:
    """What an agent reports, as the ledger keeps it. Of a refusal without a fault the code says whose it was."""
    if said.outcome == "sent":
        return Outcome("accepted", "done", said.code, said.reply)
    if said.outcome == "in_doubt":
        return Outcome("in_doubt", "dot", said.code, said.reply or "the agent does not know", "road")
    fault = said.fault
    if not fault and said.code is not None:
        fault = outcome_of(phase="rcpt", code=said.code, reply=said.reply).fault
    return Outcome(said.outcome, "rcpt", said.code, said.reply, fault or "recipient")
