"""Reads and writes the CSV of the bulk APIs by their own rules, which are stricter than a spreadsheet's.

Rules of the Bulk API guide v66, "Prepare CSV Files": UTF-8; the line ending and the delimiter are those of the job; a
value with a delimiter, a quote or a line ending stands in quotes, quotes inside are doubled; nothing is trimmed, and a
space beside a quote is an error of that row.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

DELIMITERS = {"COMMA": ",", "SEMICOLON": ";", "TAB": "\t", "PIPE": "|", "CARET": "^", "BACKQUOTE": "`"}
LINE_ENDINGS = {"LF": "\n", "CRLF": "\r\n"}


class BadCsv(Exception):
    """The text as a whole cannot be read; the message is the one of the failed job."""


@dataclass(frozen=True)
class Line:
    """One row: its values, or its raw text and what is wrong with it."""

    values: list[str]
    complaint: str = ""


def read(data: bytes, delimiter: str, line_ending: str) -> tuple[list[str], list[Line]]:
    """The header and the rows. `delimiter` and `line_ending` by their names in the job. Raises BadCsv."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadCsv("ClientInputError : CSV is not UTF-8") from None
    end = LINE_ENDINGS[line_ending]
    first = text.split("\n", 1)[0]
    if "\n" in text and (first.endswith("\r") != (end == "\r\n")):
        name = f"Current LineEnding setting is {line_ending}"
        raise BadCsv(f"ClientInputError : LineEnding is invalid on user data. {name}")
    lines = _lines(text, DELIMITERS[delimiter], end)
    header = next(lines, Line([]))
    if header.complaint or not any(header.values):
        raise BadCsv("InvalidBatch : Failed to parse CSV header")
    return header.values, [line for line in lines if line.values != [""] or line.complaint]


def write(rows: Iterable[Sequence[str]], delimiter: str = "COMMA", line_ending: str = "LF") -> str:
    """The rows with every value in quotes, as the bulk APIs write their results."""
    mark, end = DELIMITERS[delimiter], LINE_ENDINGS[line_ending]
    return "".join(mark.join('"' + value.replace('"', '""') + '"' for value in row) + end for row in rows)


@cache
def _value(mark: str) -> re.Pattern[str]:
    return re.compile(rf'(?:"((?:[^"]|"")*)"|([^"\r\n{re.escape(mark)}]*))(?=({re.escape(mark)})|\r?\n|\r?\Z)')


def _lines(text: str, mark: str, end: str) -> Iterator[Line]:
    at, pattern = 0, _value(mark)
    while at < len(text):
        start, values = at, []
        while True:
            match = pattern.match(text, at)
            if match is None:
                stop = text.find(end, at)
                at = len(text) if stop < 0 else stop + len(end)
                yield Line([], f"Failed to parse CSV row: {text[start:at].rstrip()[:80]}")
                break
            quoted, plain, more = match.groups()
            values.append(plain if quoted is None else quoted.replace('""', '"'))
            at = match.end() + len(more or "")
            if not more:
                at += len(end) if text.startswith(end, at) else 1
                yield Line(values)
                break
