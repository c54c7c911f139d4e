"""Judge a chunk of rows and enter those that are leads: the one road of an import and of its rehearsal."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Min

from routing.import_rows import Row
from routing.in_bulk import Became, Entry, copy_rows, enter_many
from routing.models import Import, ImportRow, InboundEvent, InboundSource
from routing.normalise import Address
from routing.placing import place
from routing.seen_lines import SeenLines

Verdict = ImportRow.Verdict


@dataclass(frozen=True)
class Judged:
    """A row's verdict, why, and its lead; in a rehearsal the lead is of no meaning."""

    row: Row
    verdict: str
    reason: str = ""
    lead_id: int | None = None


def judge(
    *, of: Import, source: InboundSource, rows: Sequence[Row], seen: SeenLines | None = None
) -> tuple[list[Judged], set[int]]:
    """Enter the rows that are leads; return a verdict for each row, in order, and the teams of the leads made.

    `source` was read `with_book`. A rehearsal, which is rolled back, hands the same `seen` to every chunk of a file:
    it stands for what a real import finds in the tables. Call inside a transaction. Raises what enter_many raises.
    """
    leads = {row.number: row for row in rows if row.lead}
    before = _imported_before(of, list(leads.values()))
    fresh = [row for number, row in leads.items() if number not in before]
    entries = [
        Entry(row.lead, place(lead=row.lead, source=source), f"{of.event_prefix}{row.line}", row.payload)
        for row in fresh
        if row.lead
    ]
    also_known = _seen_addresses(entries, seen) if seen is not None else {}
    became = enter_many(entries=entries, source_id=source.pk, also_known=also_known) if entries else []
    first_lines = _first_lines(of, became, seen)
    judged = {row.number: Judged(row, Verdict.REJECTED, row.reason) for row in rows if not row.lead}
    for number, lead_id in before.items():
        judged[number] = Judged(leads[number], Verdict.DUPLICATE, "this row was imported before", lead_id)
    for row, each in zip(fresh, became, strict=True):
        judged[row.number] = _verdict(row, each, first_lines)
        first_lines.setdefault(each.lead_id, row.line)
        if seen is not None:
            _note(row, each, seen)
    teams = {entry.placing.team_id for entry, each in zip(entries, became, strict=True) if each.new}
    return [judged[row.number] for row in rows], teams


def write_verdicts(*, of: Import, judged: Sequence[Judged]) -> Counter[str]:
    """Write what became of these rows; return how many got which verdict. Call inside a transaction."""
    copy_rows(
        "routing_importrow",
        "of_id, number, line, verdict, reason, lead_id",
        ((of.pk, each.row.number, each.row.line, str(each.verdict), each.reason, each.lead_id) for each in judged),
    )
    return Counter(each.verdict for each in judged)


def _verdict(row: Row, became: Became, first_lines: dict[int, int]) -> Judged:
    if became.new:
        return Judged(row, Verdict.CREATED, "", became.lead_id)
    line = first_lines.get(became.lead_id)
    if line is None:
        return Judged(row, Verdict.TOUCHED, "this lead is known and open", became.lead_id)
    return Judged(row, Verdict.DUPLICATE, f"the same lead as line {line}", became.lead_id)


def _imported_before(of: Import, rows: Sequence[Row]) -> dict[int, int]:
    """The leads of those rows, by number, whose event is there already."""
    number_of = {f"{of.event_prefix}{row.line}": row.number for row in rows}
    found = InboundEvent.objects.filter(source_id=of.source_id, event_id__in=list(number_of))
    return {number_of[event]: lead for event, lead in found.values_list("event_id", "lead_id") if lead is not None}


def _first_lines(of: Import, became: Sequence[Became], seen: SeenLines | None) -> dict[int, int]:
    """The first line of this file that belongs to a lead, for the known leads among these."""
    known = {each.lead_id for each in became if not each.new}
    if seen is not None:
        lines = {lead_id: -lead_id if lead_id < 0 else seen.get(lead_id) for lead_id in known}
        return {lead_id: line for lead_id, line in lines.items() if line is not None}
    if not known:
        return {}
    found = ImportRow.objects.filter(of=of, lead_id__in=known).values_list("lead_id").annotate(Min("line"))
    return dict(found)


def _seen_addresses(entries: Sequence[Entry], seen: SeenLines) -> dict[Address, int]:
    """Addresses of earlier rows; a line below nought stands for the lead that the row on it would have made."""
    wanted = {address for entry in entries for address in entry.lead.addresses}
    lines = {address: seen.get((address.kind, address.value)) for address in wanted}
    return {address: -line for address, line in lines.items() if line is not None}


def _note(row: Row, became: Became, seen: SeenLines) -> None:
    line = -became.lead_id if became.lead_id < 0 else row.line
    if became.lead_id > 0:
        seen.note(became.lead_id, line)
    for address in row.lead.addresses if row.lead else ():
        seen.note((address.kind, address.value), line)
