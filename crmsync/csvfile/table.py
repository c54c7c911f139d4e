"""Open a file as a table: what it is like is found out first, its records are streamed afterwards."""

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO

from crmsync.csvfile import problems
from crmsync.csvfile.dialect import Dialect, Known, guess_dialect, layout_on
from crmsync.csvfile.encoding import ENCODINGS, MARKING, Guess, guess_encoding
from crmsync.csvfile.problems import Unreadable
from crmsync.csvfile.reading import LINE_MOST, Record, raw_records, whole_lines

SAMPLE_LINES = 400
SAMPLE_CHARACTERS = 1 << 18
FOOTER_MOST = 30
"""Rows after the last blank line that may be a footer; reports of a CRM write five."""
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
EDGES = INVISIBLE + "".join(chr(point) for point in range(sys.maxunicode) if chr(point).isspace())


def trimmed(text: str) -> str:
    """The text without white space of any kind (no-break spaces, too) or invisible characters at its ends."""
    return text.strip(EDGES)


def nothing_known(name: str) -> bool:
    return False


@dataclass
class Table:
    """A table in a file. `preamble` is what stood above the header, `footer` what stood below the last record: that
    is known when all records were read. `notices` are for the person who chose the file. `header_line` is 0 where the
    file has no header; its columns have no names then.
    """

    path: Path
    encoding: str
    dialect: Dialect
    header: tuple[str, ...]
    header_line: int
    preamble: tuple[tuple[str, ...], ...] = ()
    notices: tuple[str, ...] = ()
    trailing: bool = False
    footer: list[Record] = field(default_factory=list)

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for every column, no two alike: phone, phone (2), column 3 where the header has none."""
        names: list[str] = []
        for position, name in enumerate(self.header, start=1):
            name = name or f"column {position}"
            again = 1
            while (unique := name if again == 1 else f"{name} ({again})") in names:
                again += 1
            names.append(unique)
        return tuple(names)

    def records(self) -> Iterator[Record]:
        """Every record below the header, in the order of the file. Rows without any text are none."""
        width = len(self.header)
        number = 0
        gap = False
        pending: list[Record] = []  # perhaps a footer; records if another record follows
        self.footer = []
        with open_text(self.path, self.encoding) as file:
            lines = whole_lines(iter(lambda: file.readline(LINE_MOST + 1), ""))
            for line, cells, problem in raw_records(lines, self.dialect.quoting(), encoding=self.label):
                if line <= self.header_line:
                    continue
                if not problem and len(cells) != width:
                    if self.trailing and len(cells) == width + 1 and not cells[-1].strip():
                        del cells[-1]
                    else:
                        problem = problems.width(len(cells), width)
                if not any(map(str.strip, cells)):
                    gap = True
                    continue
                number += 1
                record = Record(number, line, cells, problem)
                if (gap or pending) and len(cells) < min(width, 3) and len(pending) < FOOTER_MOST:
                    pending.append(record)
                    continue
                gap = False
                if pending:
                    yield from pending
                    pending = []
                yield record
        self.footer = pending

    @property
    def label(self) -> str:
        """The encoding in words."""
        return ENCODINGS.get(self.encoding, self.encoding)


def open_table(
    path: Path | str,
    *,
    encoding: str = "",
    delimiter: str = "",
    header_line: int | None = None,
    known: Known = nothing_known,
) -> Table:
    """Find out what a file is like. What the caller gives is taken as said and not guessed.

    `known` says whether a column name is one the caller expects, which helps to tell the header from what stands above
    it. `header_line` is the line of the file the header starts on, 0 for a file without one. Raises Unreadable; OSError
    if the file cannot be opened.
    """
    path = Path(path)
    guess = guess_encoding(path)
    if encoding:
        try:
            "".encode(encoding)
        except (LookupError, ValueError) as fault:
            raise Unreadable(f"There is no encoding “{encoding}”. Known are: {', '.join(ENCODINGS)}.") from fault
        guess = Guess(encoding)
    if delimiter and len(delimiter) != 1:
        raise Unreadable("A delimiter is one character.")
    sample = first_lines(path, guess.name)
    if not any(map(str.isalnum, chain.from_iterable(sample))):
        raise Unreadable("The file has no rows with text in them.")
    dialect, layout = guess_dialect(sample, known=known, delimiter=delimiter)
    if header_line is not None:
        found = layout_on(sample, dialect, header_line)
        if found is None:
            raise Unreadable(f"No row starts on line {header_line}.")
        layout = found
    notices = [guess.notice] if guess.notice else []
    if not layout.line:
        notices.append("The file has no header: its columns are known by their position only.")
    elif layout.preamble:
        notices.append(f"The header is on line {layout.line}; what stands above it was left out.")
    doubled = sorted({name for name in layout.header if name and layout.header.count(name) > 1})
    if doubled:
        notices.append(f"More than one column is called {', '.join(doubled)}: look which of them is meant.")
    return Table(
        path,
        guess.name,
        dialect,
        tuple(map(trimmed, layout.header)),
        layout.line,
        layout.preamble,
        tuple(notices),
        layout.trailing,
    )


def first_lines(path: Path, encoding: str) -> list[str]:
    """The whole lines a guess is made from. Raises Unreadable where the encoding does not fit from the start."""
    try:
        with open_text(path, encoding) as file:
            lines = list(islice(whole_lines(iter(lambda: file.readline(LINE_MOST + 1), "")), SAMPLE_LINES))
    except UnicodeError as fault:  # single bytes are marked; a missing byte order mark is told so
        label, found = ENCODINGS.get(encoding, encoding), guess_encoding(path).name
        raise Unreadable(
            f"Line 1 is not in {label} ({fault}). The file seems to be in {ENCODINGS.get(found, found)}."
        ) from fault
    size = 0
    for count, line in enumerate(lines):
        size += len(line)
        if size > SAMPLE_CHARACTERS:
            return lines[: max(count, 1)]
    return lines


def open_text(path: Path, encoding: str) -> IO[str]:
    """The file as text, its line ends as they are, bytes that are not of the encoding marked."""
    return path.open(encoding=encoding, errors=MARKING, newline="")


def file_digest(path: Path | str) -> str:
    """SHA-256 of the file's bytes, in hex."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
