"""Leads for whoever works on them without campaign mail: claim, extend, begin, settle, release."""

import datetime as dt
import uuid
from typing import Literal

from django.conf import settings
from django.http import HttpRequest
from ninja import Field, Router, Schema

from outreach.api.bearer import agent_of
from outreach.api.fields import Id, Name, Words
from outreach.api.mail import Extended, Lease, Released, Why
from outreach.api.once import DOCUMENTED, REFUSALS, once
from outreach.flows import agent_leads

router = Router()


class ClaimLeads(Schema):
    job: Name = Field(..., max_length=100, description="What is done, once for each lead: its name.")
    team: Id | None = Field(None, description="Only leads of this team, by number.")
    source: Name | None = Field(None, description="Only leads from this source, by the last part of its webhook.")
    since: dt.datetime | None = Field(None, description="Only leads received from then on.")
    closed: bool = Field(False, description="Closed leads, too.")
    size: int = Field(50, ge=1, le=500, description="Leads at most.")
    lease_s: float = Field(
        settings.CLAIM_LEASE_S, ge=1, le=settings.CLAIM_LEASE_S, description="How long they are yours, in seconds."
    )


class ClaimedLead(Schema):
    lead: int
    uid: uuid.UUID
    email: str
    phone: str
    first_name: str
    last_name: str
    company: str
    country: str


class LeadsClaim(Schema):
    claim: uuid.UUID | None = Field(
        None, description="The claim's token, to be shown from now on. Empty: none are left."
    )
    lease_until: dt.datetime | None = None
    leads: list[ClaimedLead] = []


class BegunLead(Schema):
    lead: int
    act_until: dt.datetime


class Result(Schema):
    lead: Id
    outcome: Literal["done", "failed", "in_doubt"]
    note: Words = Field("", max_length=500)


class Results(Schema):
    results: list[Result] = Field(..., min_length=1, max_length=500)


class SettledLeads(Schema):
    settled: dict[int, str] = Field(..., description="Lead to outcome.")
    lost: list[int] = Field(
        ..., description="Leads that were not yours to settle any more: somebody else may have them."
    )


@router.post(
    "/claims", response={200: LeadsClaim, **REFUSALS}, openapi_extra=DOCUMENTED, summary="Claim leads for a job"
)
@once
def claim(request: HttpRequest, body: ClaimLeads) -> LeadsClaim:
    agent = agent_of(request, scope="leads")
    wanted = agent_leads.Wanted(body.job, body.team, body.source, body.since, body.closed)
    held, leads = agent_leads.claim(agent=agent, wanted=wanted, size=body.size, lease_s=body.lease_s)
    if not leads:
        return LeadsClaim(claim=None)
    found = [
        ClaimedLead(lead=lead.pk, **{name: getattr(lead, name) for name in ClaimedLead.model_fields if name != "lead"})
        for lead in leads
    ]
    return LeadsClaim(claim=held.token, lease_until=held.lease_until, leads=found)


@router.post("/claims/{token}/extend", response={200: Extended, **REFUSALS}, openapi_extra=DOCUMENTED)
@once
def extend(request: HttpRequest, token: uuid.UUID, body: Lease) -> Extended:
    agent = agent_of(request, scope="leads")
    return Extended(lease_until=agent_leads.extend(agent=agent, token=token, lease_s=body.lease_s))


@router.post(
    "/claims/{token}/leads/{lead}/begin",
    response={200: BegunLead, **REFUSALS},
    openapi_extra=DOCUMENTED,
    summary="Pass the gate for one lead",
)
@once
def begin(request: HttpRequest, token: uuid.UUID, lead: Id) -> BegunLead:
    agent = agent_of(request, scope="leads")
    return BegunLead(lead=lead, act_until=agent_leads.begin(agent=agent, token=token, lead_id=lead))


@router.post("/claims/{token}/settle", response={200: SettledLeads, **REFUSALS}, openapi_extra=DOCUMENTED)
@once
def settle(request: HttpRequest, token: uuid.UUID, body: Results) -> SettledLeads:
    agent = agent_of(request, scope="leads")
    results = [(result.lead, result.outcome, result.note) for result in body.results]
    settled = agent_leads.settle(agent=agent, token=token, results=results)
    return SettledLeads(settled=settled, lost=sorted({lead for lead, _, _ in results} - set(settled)))


@router.post("/claims/{token}/release", response={200: Released, **REFUSALS}, openapi_extra=DOCUMENTED)
@once
def release(request: HttpRequest, token: uuid.UUID, body: Why) -> Released:
    agent = agent_of(request, scope="leads")
    return Released(released=agent_leads.release(agent=agent, token=token))
