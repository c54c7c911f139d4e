"""Tell what kind of log a file is, and read it line by line into the store. What cannot be read is counted and kept."""

import codecs
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO, Literal

from crmsync.csvfile import Table, Unreadable, open_table
from outreach.audit import names, postfix
from outreach.audit.envelopes import events_in
from outreach.audit.events import read_record, time_of
from outreach.audit.journal import is_entry, read_entry
from outreach.audit.json_records import Found, json_records
from outreach.audit.packed import plain_file
from outreach.audit.sightings import BadLine, Queued, Sighting
from outreach.audit.store import Store
from outreach.audit.times import Clock, order_of
from outreach.errors import NotALog

SHOWN = 50
"""Bad lines kept with their text; all are counted."""
LOOKED_AT = 200
"""Lines at the top of a file by which its kind is told."""
SMALL_SHARE = 0.05
"""More bad lines than this, and what the audit says of the file is not to be relied on."""
WANTED = (
    "wanted is Postfix's log, provider events as JSON, or a CSV file with a header that names an address column and "
    "times in one of the usual forms"
)
JSON_BEGINS = re.compile(r"\[?\s*(\{|$)|\[\s*\]$")
BEFORE_JSON = re.compile(r'(?:\[\d+\]|[^"{}\[\],])+(?=\{")')
"""Time, level and the like that a program's log has before the JSON of an event."""
Form = Literal["postfix", "events", "table"]


@dataclass
class Tally:
    """Of one file: its lines or records, those that tell of a mail, and those that should and could not be used."""

    lines: int = 0
    mails: int = 0
    bad: int = 0
    first: list[str] = field(default_factory=list)

    @property
    def doubtful(self) -> bool:
        return self.bad > SMALL_SHARE * self.lines


@dataclass
class Read:
    """What was read: the form of each file, lines, and those that say nothing that could be used."""

    files: dict[str, Form] = field(default_factory=dict)
    lines: int = 0
    bad_lines: int = 0
    bad: list[dict[str, object]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Why the finding may leave out mails."""

    def complain(self, tally: Tally, *, file: str, line: int, why: str, text: str = "") -> None:
        self.bad_lines += 1
        tally.bad += 1
        if len(tally.first) < 3:
            tally.first.append(f"line {line}: {why}")
        if len(self.bad) < SHOWN:
            self.bad.append({"file": file, "line": line, "why": why, "text": text.strip()[:120]})


def read_file(path: Path, *, store: Store, clock: Clock, read: Read) -> None:
    """Read one file, or standard input for `-`. Raises OSError; NotALog, also where nothing in it could be used."""
    with plain_file(path) as (file, cut_off):
        form = form_of(file)
        if form is None:
            raise NotALog(f"{shown(path)} is no mail log: {WANTED}.")
        read.files[shown(path)] = form
        name, tally = shown(Path(path.name)), Tally()
        if form == "postfix":
            read_postfix(file, name=name, store=store, clock=clock, read=read, tally=tally)
        else:
            clock = ordered(file, form, clock=clock, path=path)
            read_records(file, form, name=name, store=store, clock=clock, read=read, tally=tally)
    why = "; ".join(tally.first)
    if tally.doubtful and not tally.mails:
        raise NotALog(f"{shown(path)} is no mail log: none of its {tally.lines} lines could be used ({why}); {WANTED}.")
    if tally.doubtful:
        read.warnings.append(
            f"{tally.bad} of {tally.lines} lines of {shown(path)} could not be used ({why}): who was mailed twice in "
            "them is not in this finding."
        )
    if cut_off:
        read.warnings.append(f"{shown(path)} was read up to where it breaks off: {cut_off}.")


def shown(path: Path) -> str:
    """The path as a text that can be written anywhere, whatever bytes are in the name."""
    return os.fsencode(path).decode("utf-8", "replace")


def lines_of(path: Path) -> IO[str]:
    with open(path, "rb") as file:
        wide = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return open(path, encoding="utf-16" if wide else "utf-8-sig", errors="replace", newline="\n")


def form_of(path: Path) -> Form | None:
    """What kind of log it is, by its first lines; an empty file is a log in which nothing happened."""
    with lines_of(path) as file:
        top = [line.strip() for line in islice(file, LOOKED_AT) if line.strip()]
    if not top:
        return "postfix"
    if any(JSON_BEGINS.match(line) for line in top[:5]):
        return "events"
    if sum(map(bool, map(BEFORE_JSON.match, top))) > len(top) / 2:
        return "events"
    if any(postfix.is_line(line) for line in top):
        return "postfix"
    try:
        table = open_table(path, known=is_known)
    except Unreadable:
        return None
    return "table" if any(names.key_name(name) in names.ADDRESS for name in table.header) else None


def is_known(name: str) -> bool:
    """Whether a column has a name that means something here."""
    return names.key_name(name) in names.KNOWN


def ordered(file: Path, form: Form, *, clock: Clock, path: Path) -> Clock:
    """The clock that knows whether the day or the month comes first in this file. Raises NotALog where none can."""
    if clock.order:
        return clock
    _, needed = order_of(islice(times_in(file, form), LOOKED_AT))
    order, needed = order_of(times_in(file, form)) if needed else ("", False)
    if needed and not order:
        raise NotALog(
            f"{shown(path)} has dates such as 01/02/2026, and no day above 12 says whether the day or the month comes "
            "first. Say it: --dates dmy or --dates mdy."
        )
    return replace(clock, order=order)


def times_in(file: Path, form: Form) -> Iterator[object]:
    """What the records have for a time, as it is written."""
    for found in records_of(file, form):
        if isinstance(found.said, dict):
            yield time_of(found.said)


def records_of(path: Path, form: Form) -> Iterator[Found]:
    """The records of provider events or of a table."""
    if form == "table":
        yield from rows_of(open_table(path, known=is_known))
        return
    with lines_of(path) as file:
        for found in json_records(
            BEFORE_JSON.sub("", line, count=1) if BEFORE_JSON.match(line) else line for line in file
        ):
            try:
                for event in () if isinstance(found.said, BadLine) else events_in(found.said):
                    yield found._replace(said=event)
            except BadLine as fault:
                found = found._replace(said=fault)
            if isinstance(found.said, BadLine):
                yield found


def without_words(line: str) -> str:
    """The line from where its JSON begins."""
    before = BEFORE_JSON.match(line)
    return line[before.end() :] if before else line


def rows_of(table: Table) -> Iterator[Found]:
    """The rows of a CSV file with one event, or one mail sent, in each."""
    columns = table.columns
    for record in table.records():
        row = BadLine(record.problem) if record.problem else dict(zip(columns, record.cells, strict=True))
        yield Found(record.line, row, ",".join(record.cells))
    for record in table.footer:
        yield Found(record.line, BadLine("stands below the table"), ",".join(record.cells))


def read_records(path: Path, form: Form, *, name: str, store: Store, clock: Clock, read: Read, tally: Tally) -> None:
    """Provider events or a table."""
    for found in records_of(path, form):
        read.lines += 1
        tally.lines += 1
        try:
            if isinstance(found.said, BadLine):
                raise found.said
            said = read_entry(found.said, clock) if is_entry(found.said) else read_record(found.said, clock)
            keep(said, place=f"{name}:{found.line}", store=store, tally=tally)
        except BadLine as fault:
            read.complain(tally, file=name, line=found.line, why=str(fault), text=found.text)


def read_postfix(path: Path, *, name: str, store: Store, clock: Clock, read: Read, tally: Tally) -> None:
    """Postfix's lines, among those of other programs. Raises NotALog where there are others only."""
    ours = False
    with lines_of(path) as file:
        for number, line in enumerate(file, 1):
            read.lines += 1
            text = line.replace("\x00", "").rstrip("\r\n")  # a machine that lost its power leaves such
            if not text.strip():
                continue
            tally.lines += 1
            ours = ours or postfix.is_ours(text)
            try:
                keep(postfix.read_line(text, clock), place=f"{name}:{number}", store=store, tally=tally)
            except BadLine as fault:
                read.complain(tally, file=name, line=number, why=str(fault), text=text)
    if tally.lines and not ours:
        raise NotALog(f"{name} is no mail log: no line in it is of Postfix; {WANTED}.")


def keep(said: Iterable[Sighting | Queued], *, place: str, store: Store, tally: Tally) -> None:
    """Put what a line says into the store. Raises BadLine."""
    each = list(said)
    store.add(each, place=place)
    tally.mails += any(isinstance(one, Sighting) for one in each)
