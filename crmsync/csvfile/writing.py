"""Write a table that a spreadsheet may open: no cell of it is taken for a formula."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
HARMLESS = re.compile(r"[+-][\d\s().,/-]*\d(?: ?x\d+)?")
"""A phone number or a negative number: signs, digits and what stands between them calculate nothing that matters."""
BATCH = 1_000


def harmless(text: str) -> str:
    """The text, with an apostrophe before it where a spreadsheet would calculate it. Numbers stay as they are."""
    if text.lstrip(" ").startswith(STARTS) and not HARMLESS.fullmatch(text):
        return f"'{text}"
    return text


def csv_lines(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The rows as CSV, in pieces of many lines; the first begins with the byte order mark that Excel wants."""
    buffer = io.StringIO("\ufeff")
    buffer.seek(1)
    write = csv.writer(buffer).writerow
    for count, row in enumerate(rows, start=1):
        write(["" if cell is None else harmless(str(cell)) for cell in row])
        if count % BATCH == 0:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()
