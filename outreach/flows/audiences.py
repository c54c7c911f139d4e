"""Who a campaign is for: the leads of a filter, or those of a list that somebody pasted."""

import datetime as dt
import re
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, QuerySet

from routing.find import find
from routing.models import InboundEvent, InboundSource, Lead, Team

PASTED_MOST = 5_000
"""Lines of a pasted list; who has more chooses by filter."""


@dataclass(frozen=True)
class Chosen:
    """The ids of the leads, in order, and what of a pasted list is known as no lead."""

    ids: tuple[int, ...]
    unknown: tuple[str, ...] = ()


def filtered(
    *,
    team: Team | None = None,
    status: str = "",
    source: InboundSource | None = None,
    since: dt.date | None = None,
    until: dt.date | None = None,
) -> Chosen:
    """The leads of a team, in a status, from a source, received from one day to another, both included (UTC)."""
    leads: QuerySet[Lead] = Lead.objects.all()
    if team is not None:
        leads = leads.filter(team=team)
    if status:
        leads = leads.filter(status=status)
    if source is not None:
        leads = leads.filter(Exists(InboundEvent.objects.filter(lead=OuterRef("pk"), source=source)))
    if since is not None:
        leads = leads.filter(created_at__gte=midnight(since))
    if until is not None:
        leads = leads.filter(created_at__lt=midnight(until + dt.timedelta(days=1)))
    return Chosen(tuple(leads.order_by("pk").values_list("pk", flat=True)))


def midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)


def pasted(text: str) -> Chosen:
    """The leads that a list of numbers and addresses names, each once. An address means its newest lead, open first."""
    ids: set[int] = set()
    unknown: list[str] = []
    terms = [term for term in re.split(r"[\s,;]+", text) if term][:PASTED_MOST]
    numbers = [int(term.lstrip("#")) for term in terms if is_number(term)]
    known = set(Lead.objects.filter(pk__in=numbers).values_list("pk", flat=True))
    for term in terms:
        found = int(term.lstrip("#")) if is_number(term) else lead_of(term)
        if found is None or (is_number(term) and found not in known):
            unknown.append(term)
        else:
            ids.add(found)
    return Chosen(tuple(sorted(ids)), tuple(unknown))


def is_number(term: str) -> bool:
    return bool(re.fullmatch(r"#?[0-9]{1,18}", term))


def lead_of(address: str) -> int | None:
    """The lead with this address that is open, else the newest; None where nobody has it."""
    if "@" not in address:
        return None
    found = list(find(Lead.objects.all(), address).order_by("-pk").values_list("pk", "status")[:100])
    still_open = [pk for pk, status in found if status in Lead.OPEN]
    return next(iter(still_open or [pk for pk, _ in found]), None)
