"""Records out of lines: quotes closed or reported, and each record with the line it starts on.

The standard library's csv does the work. It is handed one line at a time, and the lines of the record under way are
kept until the record is whole. Where it cannot be whole, its first line alone is reported and reading goes on with the
next one: a quote that nobody closes costs a row, not the rest of the file.
"""

import csv
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from crmsync.csvfile import problems
from crmsync.csvfile.encoding import MARK

LINES_MOST = 500
"""Lines that one record may have. Notes of a CRM are long; a quote that was never closed goes on for ever."""
LINE_MOST = 1 << 20
"""Characters of a line."""
END = "unexpected end of data"
LIMIT = "field larger than field limit"


class Record(NamedTuple):
    """One record: its number from 1, the line it starts on, its texts, and why it cannot be used (or nothing)."""

    number: int
    line: int
    cells: list[str]
    problem: str


class Quoting(NamedTuple):
    delimiter: str
    quote: str
    escape: str
    spaces: bool


class Runaway(Exception):
    """The record under way has more lines than a record may have."""


class Lines:
    """Lines for csv.reader, counted, with those of the record under way at hand to be read once more."""

    def __init__(self, source: Iterator[str]) -> None:
        self.source = source
        self.again: deque[str] = deque()
        self.taken: list[str] = []
        self.next = 1
        self.spoiled = False

    def __iter__(self) -> "Lines":
        return self

    def __next__(self) -> str:
        taken = self.taken
        if len(taken) >= LINES_MOST:
            raise Runaway
        line = self.again.popleft() if self.again else next(self.source)
        taken.append(line)
        if MARK in line or "\x00" in line:
            self.spoiled = True
        return line

    def begin(self) -> int:
        """Forget the record that is done; the number of the line on which the next one starts."""
        self.next += len(self.taken)
        self.taken.clear()
        self.spoiled = False
        return self.next

    def give_back(self) -> None:
        """Have all lines but the first read again."""
        while len(self.taken) > 1:
            self.again.appendleft(self.taken.pop())


def raw_records(source: Iterator[str], quoting: Quoting, *, encoding: str = "") -> Iterator[tuple[int, list[str], str]]:
    """Each record's line, cells and problem. A blank line is a record without cells."""
    lines = Lines(source)
    reader = csv.reader(
        lines,
        delimiter=quoting.delimiter,
        quotechar=quoting.quote,
        escapechar=quoting.escape or None,
        doublequote=not quoting.escape,
        skipinitialspace=quoting.spaces,
        strict=True,
    )
    while True:
        line = lines.begin()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except (csv.Error, Runaway) as fault:
            problem = _words(fault, lines=len(lines.taken))
            lines.give_back()
            yield line, lines.taken[0].rstrip("\r\n").split(quoting.delimiter), problem
            continue
        problem = ""
        if lines.spoiled or len(lines.taken[0]) > LINE_MOST:
            problem = _spoiled("".join(lines.taken), encoding)
        yield line, cells, problem


def whole_lines(readline: Iterator[str]) -> Iterator[str]:
    """The lines, those too long cut to one character more than a line may have, so that none fills the memory."""
    for line in readline:
        if len(line) > LINE_MOST and not line.endswith(("\n", "\r")):
            for rest in readline:
                if len(rest) <= LINE_MOST or rest.endswith(("\n", "\r")):
                    break
        yield line


def _words(fault: Exception, *, lines: int) -> str:
    text = str(fault)
    if isinstance(fault, Runaway) or END in text or (LIMIT in text and lines > 1):
        return problems.UNCLOSED
    return problems.LONG_CELL if LIMIT in text else problems.AFTER_QUOTE


def _spoiled(text: str, encoding: str) -> str:
    if MARK in text:
        return problems.BAD_BYTES.format(encoding=encoding or "readable")
    return problems.NUL if "\x00" in text else problems.LONG_LINE
