"""Read what a batch of mails needs and write them, outside any transaction. What cannot be written says why."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from outreach.errors import BadAddress, BadHeader, BadTemplate
from outreach.mail.compose import Mail, Sender, compose
from outreach.mail.links import unsubscribe_url
from outreach.mail.templating import LEAD, Text, compile_text, values_of
from outreach.models import Message
from outreach.moves.claims import Held
from routing.models import Assignment

compiled = lru_cache(maxsize=256)(compile_text)


@dataclass(frozen=True)
class Prepared:
    """A message and its mail, or the problem that leaves it without one."""

    message: int
    mail: Mail | None
    problem: str = ""


def prepare(*, held: Held) -> Iterator[Prepared]:
    """The mails of a batch in its order; read in two queries, written one at a time."""
    related = ("campaign", "step", "enrolment__lead")
    rows = {row.pk: row for row in Message.objects.filter(pk__in=held.messages).select_related(*related)}
    reps = reps_of([row.enrolment.lead_id for row in rows.values()])
    for message_id in held.messages:
        row = rows[message_id]
        yield write(row, reps.get(row.enrolment.lead_id))


def reps_of(lead_ids: list[int]) -> dict[int, dict[str, str]]:
    """Name and address of the rep who has each lead now."""
    current = Assignment.objects.filter(lead_id__in=lead_ids, ended_at=None)
    found = current.values_list("lead_id", "membership__rep__name", "membership__rep__email")
    return {lead: {"name": name, "email": email} for lead, name, email in found}


def write(message: Message, rep: dict[str, str] | None) -> Prepared:
    """Write the mail of one message."""
    campaign = message.campaign
    way_out = unsubscribe_url(recipient_id=message.recipient_id)
    lead = lead_values(message.enrolment.lead)
    values = values_of(lead=lead, rep=rep, campaign=campaign.name, unsubscribe_url=way_out)
    own = Sender(campaign.from_name, campaign.from_address)
    try:
        subject, body = compiled(message.step.subject), compiled(message.step.body)
        if missing := holes(values, subject, body):
            return Prepared(message.pk, None, f"no value for {', '.join(missing)}")
        mail = compose(
            step_id=message.step_id,
            subject=subject,
            body=body,
            values=values,
            sender=Sender(rep["name"], rep["email"]) if campaign.from_rep and rep else own,
            address=message.enrolment.address,
            way_out=way_out,
        )
    except (BadAddress, BadHeader, BadTemplate) as problem:
        return Prepared(message.pk, None, str(problem))
    return Prepared(message.pk, mail)


def lead_values(lead: Any) -> dict[str, Any]:
    """What a template may know of a lead."""
    return {**{name: getattr(lead, name) for name in LEAD}, "fields": lead.fields}


def holes(values: dict[str, Any], *texts: Text) -> list[str]:
    """The names that these texts need and that have no value."""
    return sorted({name for text in texts for name in text.missing(values)})
