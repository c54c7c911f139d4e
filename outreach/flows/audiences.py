"""Who a campaign is for: the leads of a filter, or those of a list that somebody pasted or has in a file."""

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from django.db.models import Case, Exists, OuterRef, QuerySet, Value, When

from crmsync.csvfile import Record, trimmed
from outreach.errors import BadList
from routing import columns
from routing.errors import BadFile
from routing.find import email_key
from routing.import_files import look_at
from routing.imports import remembered
from routing.models import Import, ImportRow, InboundEvent, InboundSource, Lead, LeadAddress, Team

PASTED_MOST = 5_000
"""Words of a pasted list; who has more sends a file or chooses by filter."""
ROWS_MOST = 100_000
"""Rows of a file."""
PROBLEMS_SHOWN = 20
SAMPLE = 200
PART = 5_000
"""Addresses looked up at a time."""
MEANT = (ImportRow.Verdict.CREATED, ImportRow.Verdict.TOUCHED)
"""Verdicts on a row whose lead belongs to the import."""


@dataclass(frozen=True)
class Chosen:
    """The ids of the leads, in order, what of a list is known as no lead, and how many rows of a file name nobody."""

    ids: tuple[int, ...]
    unknown: tuple[str, ...] = ()
    unaddressed: int = 0


def filtered(
    *,
    team: Team | None = None,
    status: str = "",
    source: InboundSource | None = None,
    imported: Import | None = None,
    since: dt.date | None = None,
    until: dt.date | None = None,
) -> Chosen:
    """The leads of a team, in a status, from a source, made or touched by an import, received from one day to another,
    both included (UTC).
    """
    leads: QuerySet[Lead] = Lead.objects.all()
    if team is not None:
        leads = leads.filter(team=team)
    if status:
        leads = leads.filter(status=status)
    if source is not None:
        leads = leads.filter(Exists(InboundEvent.objects.filter(lead=OuterRef("pk"), source=source)))
    if imported is not None:
        leads = leads.filter(Exists(ImportRow.objects.filter(lead=OuterRef("pk"), of=imported, verdict__in=MEANT)))
    if since is not None:
        leads = leads.filter(created_at__gte=midnight(since))
    if until is not None and until < dt.date.max:  # no day comes after that one
        leads = leads.filter(created_at__lt=midnight(until + dt.timedelta(days=1)))
    return Chosen(tuple(leads.order_by("pk").values_list("pk", flat=True)))


def midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)


def pasted(text: str) -> Chosen:
    """The leads that a list of numbers and addresses names, each once. An address means its newest lead, open first."""
    terms = [term for term in re.split(r"[\s,;]+", text) if term][:PASTED_MOST]
    numbers = [int(term.lstrip("#")) for term in terms if is_number(term)]
    known = set(Lead.objects.filter(pk__in=numbers).values_list("pk", flat=True))
    found = leads_of([term for term in terms if not is_number(term)])
    ids = known.union(found.values())
    unknown = [term for term in terms if not (int(term.lstrip("#")) in known if is_number(term) else term in found)]
    return Chosen(tuple(sorted(ids)), tuple(unknown))


def is_number(term: str) -> bool:
    return bool(re.fullmatch(r"#?[0-9]{1,18}", term))


def uploaded(path: Path) -> Chosen:
    """The leads whose addresses a CSV file has, each once; the column is found as imports find theirs.

    Raises BadList with everything that is wrong, by line: a list of which a part cannot be read is taken as no list.
    """
    try:
        table = look_at(path)
        sample = [record.cells for record in islice(table.records(), SAMPLE) if not record.problem]
        mapping = remembered(table) or columns.guess(table.header, sample)
        if "email" not in mapping:
            raise BadList(["No column looks like an e-mail address: call it email."])
        records = list(islice(table.records(), ROWS_MOST + 1))
    except BadFile as fault:
        raise BadList([str(fault)]) from fault
    except OSError as fault:
        raise BadList([f"It is not here any more ({fault.strerror}). Choose it again."]) from fault
    if len(records) > ROWS_MOST:
        raise BadList([f"It has more than {ROWS_MOST:,} rows. Import them, or split it."])
    if problems := problems_of(records):
        raise BadList(problems)
    addresses = [trimmed(record.cells[mapping.index("email")]) for record in records]
    found = leads_of(list(filter(None, addresses)))
    unknown = dict.fromkeys(address for address in addresses if address and address not in found)
    return Chosen(tuple(sorted(set(found.values()))), tuple(unknown), addresses.count(""))


def problems_of(records: Sequence[Record]) -> list[str]:
    """What is wrong with these rows, by line; of many problems the first and how many more."""
    problems = [f"Line {record.line:,}: {record.problem}." for record in records if record.problem]
    more = len(problems) - PROBLEMS_SHOWN
    return problems[:PROBLEMS_SHOWN] + ([f"And {more:,} more."] if more > 0 else [])


def leads_of(addresses: Sequence[str]) -> dict[str, int]:
    """By address as it is given, the lead that has it: one that is open, else the newest. Unknown ones are left out."""
    keys = {address: email_key(address) for address in addresses if "@" in address}
    wanted = sorted(set(keys.values()))
    still_open = Case(When(lead__status__in=Lead.OPEN, then=Value(0)), default=Value(1))
    rows = LeadAddress.objects.filter(kind=LeadAddress.Kind.EMAIL)
    rows = rows.order_by("value", still_open, "-lead_id").distinct("value")
    found: dict[str, int] = {}
    for start in range(0, len(wanted), PART):
        part = wanted[start : start + PART]
        found.update(rows.filter(value__in=part).values_list("value", "lead_id"))
    return {address: found[key] for address, key in keys.items() if key in found}
