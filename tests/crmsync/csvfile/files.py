"""Files for the reader to read: written with the standard library's writer, or byte by byte."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from crmsync.csvfile import Record, open_table

CASES = Path(__file__).parent.parent.parent / "cases" / "csv"


def as_bytes(rows: Iterable[Sequence[str]], *, encoding: str = "utf-8", delimiter: str = ",", end: str = "\n") -> bytes:
    """The rows as another program would write them. Python's own leaves some line ends unquoted, unless told."""
    text = io.StringIO(newline="")
    quoting = csv.QUOTE_MINIMAL if end == "\r\n" else csv.QUOTE_ALL
    csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    return text.getvalue().encode(encoding)


def read(path: Path, **told: object) -> list[Record]:
    return list(open_table(path, **told).records())


def cells(records: Iterable[Record]) -> list[list[str]]:
    return [record.cells for record in records if not record.problem]


def problems(records: Iterable[Record]) -> dict[int, str]:
    """What is wrong, by line."""
    return {record.line: record.problem for record in records if record.problem}
