"""Make campaigns, enrolled leads and claims, in one line each."""

import itertools
from datetime import timedelta
from typing import Any

from outreach.flows.launching import launch
from outreach.mail.outcome import Outcome
from outreach.models import Campaign, Claim, Message, SendAttempt, SendingState, Step
from outreach.moves.claims import Held, claim_batch
from outreach.moves.gate import Begun, Intent, Refused, begin
from outreach.moves.sending import why_off
from routing.models import Lead
from tests.make import make_email, make_team

_numbers = itertools.count(1)
BODY = "Hello {{ lead.first_name|default:'there' }}"


def make_campaign(*, steps: int = 1, delay: timedelta = timedelta(0), **fields: Any) -> Campaign:
    """A draft with so many steps, each as long after the one before; subjects and bodies are its own."""
    number = next(_numbers)
    campaign = Campaign.objects.create(
        **{"name": f"Campaign {number}", "from_name": "Pat", "from_address": "pat@rota.example", **fields}
    )
    for order in range(1, steps + 1):
        make_step(campaign, order=order, delay=delay if order > 1 else timedelta(0), body=f"{number}/{order}: {BODY}")
    return campaign


def make_step(campaign: Campaign, **fields: Any) -> Step:
    return Step.objects.create(
        **{"campaign": campaign, "order": 1, "delay": timedelta(0), "subject": "News", "body": BODY, **fields}
    )


def make_leads(count: int) -> list[Lead]:
    """Leads of a fresh team, each with an address of its own."""
    team = make_team()
    return Lead.objects.bulk_create([Lead(team=team, email=make_email(), first_name="Ann") for _ in range(count)])


def make_running(*, leads: int = 1, steps: int = 1, **fields: Any) -> Campaign:
    """A launched campaign with so many fresh leads, and sending switched on."""
    switched_on()
    campaign = make_campaign(steps=steps, **fields)
    launch(campaign_id=campaign.pk, leads=[lead.pk for lead in make_leads(leads)], by="test")
    campaign.refresh_from_db()
    return campaign


def switched_on() -> None:
    """Sending is on, for this database."""
    assert why_off(worker="test") == ""
    assert SendingState.objects.get().epoch


def make_message(**fields: Any) -> Message:
    """The one message of a fresh running campaign."""
    return make_running(**fields).messages.get()


def hold(campaign: Campaign, *, worker: str = "w1", size: int = 50, lease_s: float = 60) -> Held:
    """Claim what is due of a campaign."""
    held = claim_batch(campaign_id=campaign.pk, worker=worker, size=size, lease_s=lease_s)
    assert held is not None
    return held


def at_gate(held: Held, message_id: int | None = None, *, worker: str = "") -> Begun | Refused:
    """Bring one message of a claim to the gate."""
    return begin(token=held.token, intent=intent_of(message_id or held.messages[0]), worker=worker or held.worker)


def intent_of(message_id: int) -> Intent:
    return Intent(message_id=message_id, mail_id="<m@rota.example>", digest="d")


def make_begun(**fields: Any) -> tuple[Held, SendAttempt]:
    """A message whose intent is committed, and the claim under which it is."""
    held = hold(make_running(**fields))
    begun = at_gate(held)
    assert isinstance(begun, Begun)
    return held, SendAttempt.objects.get(pk=begun.attempt)


def expire(*claims: int) -> None:
    """Let the leases of these claims, or of all, run out: moved into the past on the database's clock."""
    rows = Claim.objects.live().filter(pk__in=claims) if claims else Claim.objects.live()
    past = timedelta(hours=2)
    for claim in rows:
        Claim.objects.filter(pk=claim.pk).update(
            claimed_at=claim.claimed_at - past, lease_until=claim.claimed_at - past / 2
        )


ACCEPTED = Outcome("accepted", "done", 250, "queued")
DEFERRED = Outcome("deferred", "rcpt", 450, "later", "recipient")
REFUSED = Outcome("refused", "dot", 554, "no", "content")
DEAD = Outcome("refused", "rcpt", 550, "5.1.1 nobody", "mailbox")
SILENCE = Outcome("in_doubt", "dot", None, "no reply in time", "road")
