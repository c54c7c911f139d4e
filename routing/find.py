"""Find leads by what a person types: a key, an e-mail address, a phone number, a number, or a name.

The shape of the term decides, so that each is one look into one index. Only names and parts of addresses have none:
they are looked for among the newest leads.
"""

import re
import uuid

from django.db.models import Max, Q, QuerySet

from routing.models import Lead, LeadAddress
from routing.normalise import clean_email, clean_phone

NEWEST = 50_000
"""Among how many of the newest leads names are looked for."""
HELP = (
    "E-mail address, phone with country code, CRM key or number: at once. "
    f"Name, company or @domain: among the newest {NEWEST:,} leads."
)


def find(leads: QuerySet[Lead], term: str) -> QuerySet[Lead]:
    """Those of the leads that the term means."""
    term = term.strip()
    if not term:
        return leads
    if key := _as_key(term):
        return leads.filter(uid=key)
    if re.fullmatch(r"[^@\s]+@[^@\s]+", term):
        return leads.filter(pk__in=_known_by(LeadAddress.Kind.EMAIL, email_key(term)))
    if re.fullmatch(r"#?\d{1,18}", term):
        return leads.filter(Q(pk=int(term.lstrip("#"))) | Q(pk__in=_known_by(LeadAddress.Kind.PHONE, _as_phone(term))))
    if phone := _as_phone(term):
        return leads.filter(pk__in=_known_by(LeadAddress.Kind.PHONE, phone))
    return _by_name(leads, term)


def _by_name(leads: QuerySet[Lead], term: str) -> QuerySet[Lead]:
    newest = Lead.objects.aggregate(newest=Max("pk"))["newest"] or 0
    leads = leads.filter(pk__gt=newest - NEWEST)
    if term.startswith("@"):
        return leads.filter(email__iendswith=term)
    for word in term.split()[:5]:
        leads = leads.filter(
            Q(first_name__icontains=word)
            | Q(last_name__icontains=word)
            | Q(company__icontains=word)
            | Q(email__icontains=word)
        )
    return leads


def _known_by(kind: str, value: str) -> QuerySet[LeadAddress, int]:
    return LeadAddress.objects.filter(kind=kind, value=value).values_list("lead_id", flat=True)


def _as_key(term: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(term) if len(term) in (32, 36) else None
    except ValueError:
        return None


def email_key(term: str) -> str:
    """The form in which an e-mail address is known; what is none, in lower case."""
    try:
        return clean_email(term).lower()
    except ValueError:
        return term.lower()


def _as_phone(term: str) -> str:
    if not re.fullmatch(r"\+?[\d\s()./-]{6,30}", term):
        return ""
    return clean_phone(term if term.startswith("+") else f"+{term}", country="")
