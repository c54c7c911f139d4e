"""What would differ: past leads, or those of a file, under the rules in force and under a draft, side by side.

Everything is read in one read-only transaction, and both sides are rehearsed in memory by the same code from a lag of
nought, so a simulation cannot write and the difference is the draft's alone. Owners are looked up as the tables have
them today. Caps on open leads are left out (routing.rehearsal).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from routing.facts import facts_of
from routing.floor import Change, Floor, read_floor
from routing.models import InboundSource, Lead
from routing.normalise import CleanLead
from routing.placing import account_domains
from routing.rehearsal import Arrival, rehearse
from routing.rules import Book, evaluate

NOBODY = "(waiting)"
CATCH_ALL = "(catch-all)"


@dataclass(frozen=True)
class Sample:
    """A lead to be decided: who it is, its source, when it came, and the rep who had the same address last, if any."""

    name: str
    lead: CleanLead
    source: InboundSource
    at: datetime
    last_rep: int | None = None


@dataclass(frozen=True)
class Side:
    """One way to decide: a rule book, and changes of members. `parts` by rule where the book is a draft: the members
    its rules name, who make up no part in the tables yet.
    """

    book: Book
    parts: Mapping[int, frozenset[int]] = field(default_factory=dict)
    changes: Sequence[Change] = ()


@dataclass
class Differences:
    """Leads per rep and per rule on both sides, (now, then), and the leads decided differently: the first of them by
    name. A lead is decided differently if another rule, team or preferred member comes of it; that turns then fall
    otherwise shows in the leads per rep.
    """

    leads: int = 0
    by_rep: dict[str, tuple[int, int]] = field(default_factory=dict)
    by_rule: dict[str, tuple[int, int]] = field(default_factory=dict)
    different: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Placed:
    """Where a sample belongs on one side."""

    rule: str
    team: int
    part: frozenset[int] | None
    preferred: int | None


def simulate(
    *, samples: Iterable[Sample], now: Side, then: Side, ignore_hours: bool = False, examples: int = 20
) -> Differences:
    """Decide and give out the samples on both sides. Reads in a transaction that cannot write; writes nothing."""
    samples = list(samples)
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
        floors = [read_floor(changes=side.changes, ignore_hours=ignore_hours) for side in (now, then)]
    placed = [
        [place(sample, side, floor) for sample in samples] for side, floor in zip((now, then), floors, strict=True)
    ]
    found = Differences(leads=len(samples))
    found.by_rep = _pairs(*(_by_rep(samples, places, floor) for places, floor in zip(placed, floors, strict=True)))
    found.by_rule = _pairs(*(Counter(each.rule for each in places) for places in placed))
    for sample, one, two in zip(samples, *placed, strict=True):
        if one != two:
            found.different += 1
            if len(found.examples) < examples:
                words = (floors[0].words(one.team, one.preferred), floors[1].words(two.team, two.preferred))
                found.examples.append(
                    {"lead": sample.name, "now": f"{one.rule}: {words[0]}", "then": f"{two.rule}: {words[1]}"}
                )
    return found


def place(sample: Sample, side: Side, floor: Floor) -> Placed:
    """Where a lead belongs: in memory what routing.placing does in the statement that inserts it."""
    book = side.book
    rule = evaluate(book, facts_of(lead=sample.lead, source=sample.source.slug)).rule
    owners_first = rule is None or rule.owners_first
    team = rule.team if rule and rule.team in floor.crews else sample.source.team_id
    part = None
    if rule and team == rule.team:
        part = side.parts.get(rule.id) or (floor.parts[rule.part] if rule.part else None)
    domains = account_domains(sample.lead.domain, mailboxes=book.mailboxes)
    account = next((domain for domain in domains if domain in floor.owners), "")
    wishes = [
        sample.last_rep if owners_first and sample.source.sticky_owner else None,
        floor.owners.get(account) if owners_first and sample.source.account_owner else None,
        rule.rep if rule else None,
    ]
    for rep in wishes:
        member = floor.member_of(rep, team=team, part=part) if rep else None
        if member is not None:
            own = floor.team_of[member]
            return Placed(rule.name if rule else CATCH_ALL, own, part if own == team else None, member)
    return Placed(rule.name if rule else CATCH_ALL, team, part, None)


def of_leads(leads: Sequence[Lead]) -> list[Sample]:
    """Past leads as samples, by the source they came from; those whose source is not known any more are left out."""
    sources = {source.slug: source for source in InboundSource.objects.all()}
    last = _last_reps([lead.previous_id for lead in leads if lead.previous_id])
    found = []
    for lead in leads:
        source = sources.get(lead.why.get("source", ""))
        if source:
            texts = {
                name: getattr(lead, name)
                for name in ("email", "phone", "first_name", "last_name", "company", "country")
            }
            clean = CleanLead(**texts, fields=lead.fields)
            found.append(Sample(f"lead {lead.pk}", clean, source, lead.created_at, last.get(lead.previous_id or 0)))
    return found


def of_file(*, rows: Iterable[CleanLead], source: InboundSource, at: datetime) -> list[Sample]:
    """The leads of a file as samples that arrive together, in its order."""
    rows = list(rows)
    found = []
    with connection.cursor() as cursor:
        for number, lead in enumerate(rows, start=1):
            kinds = [address.kind for address in lead.addresses]
            cursor.execute(KNOWN_BEFORE, [kinds, [address.value for address in lead.addresses]])
            row = cursor.fetchone()
            found.append(Sample(f"row {number}", lead, source, at, row[0] if row else None))
    return found


def _by_rep(samples: Sequence[Sample], places: Sequence[Placed], floor: Floor) -> Counter[str]:
    arrivals = [
        Arrival(number, sample.at, placed.team, placed.part, placed.preferred)
        for number, (sample, placed) in enumerate(zip(samples, places, strict=True))
    ]
    taken = rehearse(crews=floor.crews.values(), arrivals=arrivals)
    counts = Counter(floor.names[member] for member in taken.values())
    if len(taken) < len(samples):
        counts[NOBODY] = len(samples) - len(taken)
    return counts


def _pairs(now: Counter[str], then: Counter[str]) -> dict[str, tuple[int, int]]:
    return {name: (now[name], then[name]) for name in sorted({*now, *then})}


def _last_reps(lead_ids: Sequence[int]) -> dict[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(LAST_REPS, [list(lead_ids)])
        return dict(cursor.fetchall())


def as_dict(found: Differences) -> dict[str, Any]:
    """The differences in plain values, for --json."""
    return {
        "leads": found.leads,
        "different": found.different,
        "by_rep": {name: {"now": now, "then": then} for name, (now, then) in found.by_rep.items()},
        "by_rule": {name: {"now": now, "then": then} for name, (now, then) in found.by_rule.items()},
        "examples": found.examples,
    }


LAST_REPS = """
    SELECT DISTINCT ON (a.lead_id) a.lead_id, m.rep_id
      FROM routing_assignment a JOIN routing_membership m ON m.id = a.membership_id
     WHERE a.lead_id = ANY (%s) ORDER BY a.lead_id, a.id DESC
"""
KNOWN_BEFORE = """
    SELECT m.rep_id FROM routing_assignment a JOIN routing_membership m ON m.id = a.membership_id
     WHERE a.lead_id = (SELECT max(known.lead_id) FROM routing_leadaddress known
                          JOIN unnest(%s::text[], %s::text[]) AS address(kind, value) USING (kind, value)
                         WHERE NOT known.open)
     ORDER BY a.id DESC LIMIT 1
"""
