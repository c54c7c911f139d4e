"""The verdicts of an import as a table for a spreadsheet: what became of each row, beside the row as it was."""

from collections.abc import Iterator

from crmsync.csvfile import Record, csv_lines
from routing.errors import BadFile
from routing.import_files import open_kept
from routing.models import Import, ImportRow

BATCH = 2_000


def verdict_lines(*, row: Import) -> Iterator[str]:
    """The CSV file in pieces; memory does not grow with it. Formula cells are neutralised. Raises nothing: where the
    file is gone, the verdicts stand alone.
    """
    return csv_lines(verdict_table(row=row))


def verdict_table(*, row: Import) -> Iterator[list[object]]:
    """Header and rows: line, verdict, reason, the lead's key, and the row's own cells."""
    yield ["line", "verdict", "reason", "lead", *row.columns]
    cells = _cells(row)
    for number, line, verdict, reason, lead_id in _verdicts(row):
        yield [line, verdict, reason, lead_id, *next((each.cells for each in cells if each.number == number), [])]


def _cells(row: Import) -> Iterator[Record]:
    try:
        yield from open_kept(row).records()
    except BadFile:
        return


def _verdicts(row: Import) -> Iterator[tuple[int, int, str, str, int | None]]:
    """In the order of the file, fetched a batch at a time; a server cursor would not outlive a pooler."""
    after = 0
    rows = ImportRow.objects.filter(of=row).order_by("number")
    while batch := list(
        rows.filter(number__gt=after).values_list("number", "line", "verdict", "reason", "lead_id")[:BATCH]
    ):
        yield from batch
        after = batch[-1][0]
