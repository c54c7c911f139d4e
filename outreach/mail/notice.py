"""What a rep is told: the leads that are theirs now, why, and where to look. Plain text, to one rep."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import format_datetime

from django.conf import settings
from django.utils import timezone

from outreach.mail.addresses import wire_address
from outreach.mail.compose import NAMESPACE, SUBJECT_MOST, Mail
from outreach.mail.writing import free_text, mailbox, written


@dataclass(frozen=True)
class Told:
    """A lead in a notice, as far as a rep wants to know before opening it."""

    lead: int
    name: str
    company: str
    reach: tuple[str, ...]
    team: str
    why: str


def compose_notice(*, mail_id: int, address: str, rep: str, leads: Sequence[Told]) -> Mail:
    """Write the mail. Its Message-ID is the same at every try. Raises BadAddress for a rep who cannot be written to."""
    to, sender = wire_address(address), wire_address(settings.NOTICE_FROM)
    text = "\n\n".join((f"{plain(rep)}, this is yours now:", *(paragraph(lead) for lead in leads))) + "\n"
    message_id = f"<{uuid.uuid5(NAMESPACE, f'notice {mail_id}')}@{sender.text.rpartition('@')[2]}>"
    headers = (
        ("From", mailbox("Rota", sender.text)),
        ("To", to.text),
        ("Subject", free_text(subject(leads))),
        ("Date", format_datetime(timezone.now())),
        ("Auto-Submitted", "auto-generated"),
        ("Message-ID", message_id),
    )
    return Mail(sender.text, to.text, message_id, written(headers, text, utf8=to.needs_utf8), to.needs_utf8)


def subject(leads: Sequence[Told]) -> str:
    """One lead by its name, several by their number."""
    if len(leads) > 1:
        return f"{len(leads)} new leads for you"
    return plain(f"New lead: {leads[0].name}" + (f", {leads[0].company}" if leads[0].company else ""))[:SUBJECT_MOST]


def paragraph(lead: Told) -> str:
    """A lead in a few lines, with the address of its page."""
    first = plain(lead.name + (f", {lead.company}" if lead.company else ""))
    page = f"{settings.PUBLIC_URL.rstrip('/')}/admin/routing/lead/{lead.lead}/change/"
    return "\n".join(filter(None, (first, *map(plain, lead.reach), plain(f"{lead.team}: {lead.why}"), page)))


def plain(text: str) -> str:
    """The text on one line: what a sender wrote into a name makes no header and no line of its own."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
