"""JSON in every layout that exports have: a record a line, an array, pretty-printed, or one record right after another.

Read piece by piece: no more than one record lies in the memory. A record that was cut off spoils no other one.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from outreach.audit.sightings import BadLine

BETWEEN = re.compile(r"[\s,\[\]]*")
"""What may stand between records: the brackets and commas of an array around them."""
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|["{}\[\]:,]')
PAIRS = {"}": "{", "]": "["}
RECORD_MOST = 32 << 20
"""Characters of a record over several lines."""
NO_TEXT = re.compile(r"\\u(?:d[89a-f]|0000)", re.IGNORECASE)
DECODER = json.JSONDecoder()


class Found(NamedTuple):
    """A record, or what is wrong there; the line it begins on, from 1, and the text of that line."""

    line: int
    said: dict[str, Any] | BadLine
    text: str


def json_records(lines: Iterable[str]) -> Iterator[Found]:
    """Every record, in the order of the text."""
    held: list[tuple[int, str]] = []
    brackets, size = Brackets(), 0
    for number, line in enumerate(lines, 1):
        begins = number
        if held and not brackets.take(line):
            yield from cut_off(held)
            held = []
            if not line.lstrip().startswith(("{", "[")):
                continue  # the last of what was cut off
        elif held:
            held.append((number, line))
            size += len(line)
            if not brackets.closed and size <= RECORD_MOST:
                continue
            if not brackets.closed:
                yield from cut_off(held)
                held = []
                continue
            begins, line = held[0][0], "".join(text for _, text in held)
            held = []
        at = 0
        while (at := BETWEEN.match(line, at).end()) < len(line):  # type: ignore[union-attr]
            try:
                one, at = decoded(line, at)
            except BadLine as fault:
                brackets = Brackets()
                if brackets.take(line[at:]) and brackets.stack:
                    held, size = [(begins, line[at:])], len(line) - at
                else:
                    yield Found(begins, fault, line[at:])
                break
            yield Found(begins, one if isinstance(one, dict) else BadLine("no JSON object"), line)
            begins = number
    if held:
        yield from cut_off(held)


class Brackets:
    """Which brackets are open behind some lines; `closed` once none was open."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.last = ""
        self.closed = False

    def take(self, line: str) -> bool:
        """Add a line; False where no JSON goes on like that. A text never goes on behind the end of a line."""
        for found in TOKEN.finditer(line):
            sign = found[0][0]
            if sign == '"' and len(found[0]) == 1:
                return False
            if sign in "{[":
                if self.stack and self.stack[-1] == "{" and self.last != ":":
                    return False
                self.stack.append(sign)
            elif sign in PAIRS:
                if not self.stack or self.stack.pop() != PAIRS[sign]:
                    return self.closed
                self.closed = self.closed or not self.stack
            self.last = sign
        return True


def cut_off(held: list[tuple[int, str]]) -> Iterator[Found]:
    """Lines that make no whole record: its first is reported. Whole records among them that lie no deeper are kept."""
    (number, text), *others = held
    yield Found(number, BadLine("no JSON: the record is cut off"), text)
    for number, line in others:
        if line.startswith("{") and len(line) - len(line.lstrip()) <= len(text) - len(text.lstrip()):
            try:
                one, _ = decoded(line, 0)
            except BadLine:
                continue
            yield Found(number, one, line)


def decoded(text: str, at: int = 0) -> tuple[Any, int]:
    """The value that begins there, and where it ends. Raises BadLine.

    Half of a surrogate pair and NUL are no text that a database takes: they become other signs.
    """
    try:
        value, end = DECODER.raw_decode(text, at)
        if NO_TEXT.search(text, at, end):
            value = written(value)
    except RecursionError:
        raise BadLine("no JSON: nested too deep") from None
    except ValueError as fault:
        raise BadLine(f"no JSON: {str(fault)[:60]}") from None
    return value, end


def written(value: Any) -> Any:
    """The value with every text in it such that it can be stored."""
    if isinstance(value, dict):
        return {written(name): written(one) for name, one in value.items()}
    if isinstance(value, list):
        return [written(one) for one in value]
    return value.replace("\x00", "?").encode("utf-8", "replace").decode() if isinstance(value, str) else value
