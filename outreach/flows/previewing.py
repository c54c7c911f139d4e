"""Show what a lead would get: the mail of a step exactly as it would be handed over, or why there would be none."""

from dataclasses import dataclass

from outreach.errors import BadAddress, BadHeader, BadTemplate
from outreach.flows.preparing import compiled, holes, lead_values, reps_of
from outreach.mail.compose import Sender, compose
from outreach.mail.links import unsubscribe_url
from outreach.mail.parts import parts_of
from outreach.mail.templating import values_of
from outreach.models import Step
from routing.models import Lead


@dataclass(frozen=True)
class Preview:
    """One mail as it would arrive, or the problem instead."""

    step: Step
    sender: str = ""
    to: str = ""
    subject: str = ""
    body: str = ""
    problem: str = ""


def preview(*, step: Step, lead: Lead) -> Preview:
    """The mail of this step to this lead. Its link to unsubscribe names nobody: following it changes nothing."""
    campaign, rep = step.campaign, reps_of([lead.pk]).get(lead.pk)
    way_out = unsubscribe_url(recipient_id=0)
    values = values_of(lead=lead_values(lead), rep=rep, campaign=campaign.name, unsubscribe_url=way_out)
    own = Sender(campaign.from_name, campaign.from_address)
    try:
        subject, body = compiled(step.subject), compiled(step.body)
        if missing := holes(values, subject, body):
            return Preview(step, problem=f"This lead has no {', '.join(missing)}: the launch would be refused.")
        mail = compose(
            step_id=step.pk,
            subject=subject,
            body=body,
            values=values,
            sender=Sender(rep["name"], rep["email"]) if campaign.from_rep and rep else own,
            address=lead.email,
            way_out=way_out,
        )
    except (BadAddress, BadHeader, BadTemplate) as problem:
        return Preview(step, problem=str(problem))
    parts = parts_of(mail)
    return Preview(step, parts.sender, parts.recipient, parts.subject, parts.text)
