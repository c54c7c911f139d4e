"""Work on leads through an agent's hands, once for each lead of a job."""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from outreach.errors import BadAddress, NotAllowed, NotFound
from outreach.mail.addresses import wire_address
from outreach.models import Agent, LeadClaim
from outreach.moves import lead_claims
from outreach.moves.events import Kind, Layer, tell
from outreach.moves.lead_claims import HeldLeads
from routing.models import InboundSource, Lead, Team


@dataclass(frozen=True)
class Wanted:
    """Which leads, for which job."""

    job: str
    team: int | None = None
    source: str | None = None
    since: dt.datetime | None = None
    closed: bool = False


def claim(*, agent: Agent, wanted: Wanted, size: int, lease_s: float) -> tuple[HeldLeads, list[Lead]]:
    """Claim leads, oldest first. Raises NotFound where the team or the source does not exist."""
    if wanted.team is not None and not Team.objects.filter(pk=wanted.team).exists():
        raise NotFound("No team has this number.")
    source = InboundSource.objects.filter(slug=wanted.source).first() if wanted.source is not None else None
    if wanted.source is not None and source is None:
        raise NotFound("No source has this name.")
    held = lead_claims.claim_leads(
        job=wanted.job,
        worker=agent.worker,
        size=size,
        lease_s=lease_s,
        statuses=[status.value for status in (Lead.Status if wanted.closed else Lead.OPEN)],
        team_id=wanted.team,
        source_id=source.pk if source else None,
        since=wanted.since,
    )
    return held, list(Lead.objects.filter(pk__in=held.leads).order_by("pk"))


def extend(*, agent: Agent, token: uuid.UUID, lease_s: float) -> dt.datetime:
    """Extend a claim of this agent, and say until when. Raises ClaimLost."""
    own(agent=agent, token=token)
    return lead_claims.renew_leads(token=token, worker=agent.worker, lease_s=lease_s)


def begin(*, agent: Agent, token: uuid.UUID, lead_id: int) -> dt.datetime:
    """Pass the gate for one lead of a claim, and say until when to act. Raises GateClosed."""
    claim = own(agent=agent, token=token)
    address = Lead.objects.filter(pk=lead_id).values_list("email", flat=True).first() or ""
    try:
        key = wire_address(address).key if address else ""
    except BadAddress:
        key = address.lower()
    lead_claims.begin_lead(token=token, lead_id=lead_id, worker=agent.worker, address_key=key)
    return claim.lease_until


def settle(*, agent: Agent, token: uuid.UUID, results: Sequence[tuple[int, str, str]]) -> dict[int, str]:
    """Say what became of leads of a claim; return what was recorded."""
    own(agent=agent, token=token)
    return lead_claims.settle_leads(token=token, worker=agent.worker, results=results)


def release(*, agent: Agent, token: uuid.UUID) -> int:
    """Give back what is not begun."""
    own(agent=agent, token=token)
    return lead_claims.release_leads(token=token, worker=agent.worker)


def own(*, agent: Agent, token: uuid.UUID) -> LeadClaim:
    """The claim with this token. Raises NotFound, or NotAllowed (and says so in an event) if another worker has it."""
    claim = LeadClaim.objects.filter(token=token).first()
    if claim is None:
        raise NotFound("No claim has this token.")
    if claim.worker != agent.worker:
        reason = "another worker's claim on leads"
        tell(kind=Kind.TURNED_AWAY, layer=Layer.CLAIM, worker=agent.worker, reason=reason)
        raise NotAllowed("Another worker holds this claim.")
    return claim
