"""How the cells of a table are told apart, and where its header is: found out from the first rows of the file.

Every delimiter is tried, and under each of them every early row as the header. The best header is one that most later
rows are as wide as, whose cells look like names and not like values, and which has names that the caller knows.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from crmsync.csvfile.reading import Quoting, raw_records

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
HEADER_WITHIN = 60
"""Records of preamble that may stand above a header; webinar tools write up to twenty."""
KNOWN_MOST = 4
CLOSE = 0.1
AN_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
A_NUMBER = re.compile(r"[+-]?[\d .,:/()-]*\d[\d .,:/()-]*")
SEP = re.compile(r"sep=(.)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Dialect:
    """What separates cells and what encloses them. `escape` is empty where a quote inside a cell is doubled."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    spaces: bool = False
    """A space may stand between a delimiter and the opening quote."""

    def quoting(self) -> Quoting:
        return Quoting(self.delimiter, self.quote, self.escape, self.spaces)


@dataclass(frozen=True)
class Layout:
    """The header, the line it starts on (0: the file has none) and its columns; `trailing`: rows end in a delimiter."""

    header: tuple[str, ...]
    line: int
    preamble: tuple[tuple[str, ...], ...] = ()
    trailing: bool = False


@dataclass(frozen=True)
class Row:
    line: int
    cells: list[str]

    @property
    def note(self) -> bool:
        """At most one cell has text in it: a title or a remark, perhaps, and no sign of the table's width."""
        return sum(map(bool, map(str.strip, self.cells))) <= 1


Known = Callable[[str], bool]


def guess_dialect(lines: Sequence[str], *, known: Known, delimiter: str = "") -> tuple[Dialect, Layout]:
    """The dialect and the layout of a table that begins with these lines, whole ones with their ends.

    Of two that are as likely it is the one that leaves out less above its header, then the more usual delimiter.
    """
    if not delimiter and lines and (said := SEP.fullmatch(lines[0])):
        delimiter = said[1]
    best: tuple[tuple[float, int], Dialect, Layout] | None = None
    for candidate in (delimiter,) if delimiter else DELIMITERS:
        for dialect in _quotings(candidate, lines):
            rows, faults = _rows(lines, dialect)
            if _spaced(rows, lines, candidate):
                dialect = replace(dialect, spaces=True)
                rows, faults = _rows(lines, dialect)
            points, layout = best_layout(rows, known=known)
            points -= faults / max(1, len(rows) + faults)
            likely = round(points, 6), -len(layout.preamble)
            if best is None or likely > best[0]:
                best = likely, dialect, layout
    assert best is not None
    return best[1], best[2]


def best_layout(rows: Sequence[Row], *, known: Known) -> tuple[float, Layout]:
    """The likeliest header among these rows, and how likely it is compared with others."""
    wide, candidates = without_notes(rows)
    if not candidates:
        return -1.0, Layout((), 0)
    most = HEADER_WITHIN if wide else 2
    points = [_points(row, candidates[index + 1 :], known=known) for index, row in enumerate(candidates[:most])]
    best = max(points)
    chosen = candidates[next(index for index, each in enumerate(points) if each >= best - CLOSE)]
    later = [row for row in candidates if row.line > chosen.line]
    return best, layout_at(chosen, later, rows)


def without_notes(rows: Sequence[Row]) -> tuple[bool, list[Row]]:
    """Whether the table has more than one column, and the rows that may tell how many."""
    bodies = [row for row in rows if not row.note]
    wide = any(len(row.cells) > 1 for row in bodies)
    return wide, bodies if wide else list(rows)


def layout_on(lines: Sequence[str], dialect: Dialect, header_line: int) -> Layout | None:
    """The layout with the header on this line, 0 for a table without one; None if no row begins there."""
    rows, _ = _rows(lines, dialect)
    if header_line == 0:
        return Layout(("",) * len(rows[0].cells), 0) if rows else None
    chosen = next((row for row in rows if row.line == header_line), None)
    if chosen is None:
        return None
    return layout_at(chosen, [row for row in without_notes(rows)[1] if row.line > header_line], rows, told=True)


def layout_at(chosen: Row, later: Sequence[Row], rows: Sequence[Row], *, told: bool = False) -> Layout:
    """The layout whose header is this row; no header if it has somebody's address in it, unless that was `told`."""
    header = [cell.strip() for cell in chosen.cells]
    plain = len(header)
    if header[-1] == "" and sum(len(row.cells) == plain - 1 for row in later) > len(later) / 2:
        header.pop()
    trailing = sum(len(row.cells) == plain + 1 and not row.cells[-1].strip() for row in later) > len(later) / 2
    preamble = tuple(tuple(row.cells) for row in rows if row.line < chosen.line)
    if not told and any(AN_ADDRESS.fullmatch(cell) for cell in header):
        return Layout(("",) * len(header), 0, (), trailing)
    return Layout(tuple(header), chosen.line, preamble, trailing)


def _points(row: Row, later: Sequence[Row], *, known: Known) -> float:
    """Between -2 and 3. A row that is as wide as all later ones, and says names that are known, has the most."""
    cells = [cell.strip() for cell in row.cells]
    width = len(cells)
    widths = Counter(len(other.cells) for other in later)
    fitting = widths[width] + (widths[width - 1] if not cells[-1] else 0)
    if widths[width + 1]:
        fitting += sum(len(other.cells) == width + 1 and not other.cells[-1].strip() for other in later)
    points = fitting / len(later) if later else 0.5
    points += 0.5 + 0.01 * min(width, 30) if width > 1 else 0.0
    points += 0.25 * min(KNOWN_MOST, len({cell.lower() for cell in cells if cell and known(cell)}))
    points -= 0.5 * cells.count("") / width
    if any(AN_ADDRESS.fullmatch(cell) for cell in cells):
        points -= 1.0
    elif any(A_NUMBER.fullmatch(cell) for cell in cells):
        points -= 0.4
    return points


def _quotings(delimiter: str, lines: Iterable[str]) -> list[Dialect]:
    """The ways of quoting that a file with this delimiter may use, the usual one first."""
    text = "".join(lines)
    found = [Dialect(delimiter)]
    if '\\"' in text:
        found.append(Dialect(delimiter, escape="\\"))
    if text.count(f"'{delimiter}'") > text.count("\n") / 2:
        found.append(Dialect(delimiter, quote="'"))
    return found


def _spaced(rows: Sequence[Row], lines: Iterable[str], delimiter: str) -> bool:
    """Whether most rows have a quote after a delimiter and a space: "Novák", "Pat"."""
    spaced = sum(any(cell.startswith(' "') for cell in row.cells) for row in rows)
    return spaced > len(rows) / 2 and any(f'{delimiter} "' in line for line in lines)


def _rows(lines: Sequence[str], dialect: Dialect) -> tuple[list[Row], int]:
    """The records that can be read, and how many cannot."""
    rows, faults = [], 0
    for line, cells, problem in raw_records(iter(lines), dialect.quoting()):
        if problem:
            faults += 1
        elif any(map(str.strip, cells)):
            rows.append(Row(line, cells))
    return rows, faults
