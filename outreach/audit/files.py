"""Tell what kind of log a file is, and read it line by line into the store. What cannot be read is counted and kept."""

import bz2
import gzip
import lzma
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from crmsync.csvfile import Unreadable, open_table
from outreach.audit import events, postfix
from outreach.audit.sightings import BadLine
from outreach.audit.store import Store
from outreach.audit.times import Clock

SHOWN = 50
"""Bad lines kept with their text; all are counted."""
LOOKED_AT = 200
"""Lines at the top of a file by which its kind is told."""
PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
Form = Literal["postfix", "events", "table"]


class NotALog(Exception):
    """The file is no mail log that can be read; the message says what would be."""


@dataclass
class Read:
    """What was read: the form of each file, lines, and those that say nothing that could be used."""

    files: dict[str, Form] = field(default_factory=dict)
    lines: int = 0
    bad_lines: int = 0
    bad: list[dict[str, object]] = field(default_factory=list)

    def complain(self, *, file: str, line: int, why: str, text: str = "") -> None:
        self.bad_lines += 1
        if len(self.bad) < SHOWN:
            self.bad.append({"file": file, "line": line, "why": why, "text": text.strip()[:120]})


def read_file(path: Path, *, store: Store, clock: Clock, read: Read) -> None:
    """Read one file, or standard input for `-`. Raises NotALog, OSError."""
    with plain_file(path) as file:
        form = form_of(file)
        if form is None:
            raise NotALog(
                f"{path} is no mail log: wanted is Postfix's log, provider events as JSON lines, or a CSV file with a "
                "header that names an address column."
            )
        read.files[str(path)] = form
        if form == "table":
            read_table(file, name=path.name, store=store, clock=clock, read=read)
        else:
            read_lines(file, name=path.name, form=form, store=store, clock=clock, read=read)


@contextmanager
def plain_file(path: Path) -> Iterator[Path]:
    """The file itself, or an unpacked copy of it for the time it is needed."""
    with tempfile.TemporaryDirectory(prefix="rota-audit-") as folder:
        copy = Path(folder) / "log"
        if str(path) == "-":
            with open(copy, "wb") as out:
                shutil.copyfileobj(sys.stdin.buffer, out)
            path = copy
        with open(path, "rb") as file:
            head = file.read(6)
        unpack = next((opener for magic, opener in PACKED.items() if head.startswith(magic)), None)
        if unpack is not None:
            unpacked = Path(folder) / "unpacked"
            with unpack(path) as packed, open(unpacked, "wb") as out:
                shutil.copyfileobj(packed, out)
            path = unpacked
        yield path


def lines_of(path: Path) -> IO[str]:
    return open(path, encoding="utf-8-sig", errors="replace", newline="\n")


def form_of(path: Path) -> Form | None:
    """What kind of log it is, by its first lines; an empty file is a log in which nothing happened."""
    with lines_of(path) as file:
        top = [line.strip() for line in islice(file, LOOKED_AT) if line.strip()]
    if not top:
        return "postfix"
    if any(line.startswith("{") or line.startswith("[{") or line == "[" for line in top[:5]):
        return "events"
    if any(postfix.is_line(line) for line in top):
        return "postfix"
    try:
        table = open_table(path, known=is_known)
    except Unreadable:
        return None
    return "table" if any(events.plain(name) in events.ADDRESS for name in table.header) else None


def is_known(name: str) -> bool:
    """Whether a column has a name that means something here."""
    return events.plain(name) in {*events.ADDRESS, *events.AT, *events.MAIL_ID, *events.WORKER, *events.EVENT}


def read_lines(path: Path, *, name: str, form: Form, store: Store, clock: Clock, read: Read) -> None:
    """Postfix lines or JSON lines."""
    reader = postfix.read_line if form == "postfix" else events.read_json
    with lines_of(path) as file:
        for number, line in enumerate(file, 1):
            read.lines += 1
            text = line.rstrip("\r\n")
            if not text.strip():
                continue
            try:
                store.add(list(reader(text, clock)), place=f"{name}:{number}")
            except BadLine as fault:
                read.complain(file=name, line=number, why=str(fault), text=text)


def read_table(path: Path, *, name: str, store: Store, clock: Clock, read: Read) -> None:
    """A CSV file with one event, or one mail sent, in each row."""
    table = open_table(path, known=is_known)
    for record in table.records():
        read.lines += 1
        try:
            if record.problem:
                raise BadLine(record.problem)
            row = dict(zip(table.columns, record.cells, strict=True))
            store.add(list(events.read_record(row, clock)), place=f"{name}:{record.line}")
        except BadLine as fault:
            read.complain(file=name, line=record.line, why=str(fault), text=",".join(record.cells))
    for record in table.footer:
        read.lines += 1
        read.complain(file=name, line=record.line, why="stands below the table", text=",".join(record.cells))
