"""Look at a whole file before anything of it is written: every header, key and cell, and how the rows hang together.

The file is streamed; what stays in memory is eight bytes a row to find keys that come twice, and a count for each
parent.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from crmsync import lockkeys, lockpolicy
from crmsync.csvfile import Table, Unreadable, open_table, trimmed
from crmsync.models import Operation
from crmsync.push.columns import Asked, Column, Columns, parent_of, read_columns
from crmsync.push.problems import Problem, Problems
from crmsync.push.values import EMPTIED, Wrong, shown, typed

NO_KEYS = {".", ".."}


@dataclass(frozen=True, slots=True)
class Row:
    """One row that can be sent: where it begins, its key, its fields by the org's names, and its parents."""

    line: int
    key: str
    fields: Mapping[str, Any]
    parents: list[dict[str, str]]


@dataclass
class Checked:
    """What a file is like. `groups`: rows by the lock keys of their parents; a row without one counts under ()."""

    table: Table | None = None
    columns: Columns | None = None
    rows: int = 0
    problems: Problems = field(default_factory=Problems)
    notices: list[str] = field(default_factory=list)
    groups: Counter[tuple[str, ...]] = field(default_factory=Counter)
    labels: dict[str, str] = field(default_factory=dict)
    """The parents behind the lock keys, as the file writes them."""


def check(path: Path, *, asked: Asked, encoding: str = "") -> Checked:
    """Read the file once, and once more where keys come twice."""
    found = Checked()
    try:
        found.table = table = open_table(path, encoding=encoding, known=lambda name: bool(asked.object.field(name)))
    except Unreadable as fault:
        found.problems.add(0, str(fault))
        return found
    if text := wrong_encoding(table, said=encoding):
        found.problems.add(0, text)
        return found
    if not table.header_line:
        found.problems.add(1, "The first line should name the columns, by the API names of their fields.")
        return found
    found.columns, problems = read_columns(table.header, asked=asked, line=table.header_line)
    found.problems.extend(problems)
    if found.columns is None:
        return found
    hashes = array("q")
    key = found.columns.key

    def seen(text: str) -> None:
        hashes.append(hash(same_key(text, key)))

    for row in rows_of(table, columns=found.columns, asked=asked, problems=found.problems, seen=seen):
        found.rows += 1
        found.groups[lock_keys(row, asked)] += 1
        for parent in row.parents:
            name = parent.get("external_id") or parent["crm_id"]
            found.labels.setdefault(lockkeys.key_of(parent, {}), f"{parent['object']} {name}")
    for record in table.footer:
        found.problems.add(record.line, f"Stands apart at the end of the file: {record.cells[0]!r}.")
    if not found.rows and not found.problems.count:
        found.problems.add(0, "The file has no rows below its header.")
    ordered = sorted(hashes)
    twice = {one for one, other in pairwise(ordered) if one == other}
    if twice:
        found.problems.extend(doubled(table, columns=found.columns, twice=twice))
    found.problems.found.sort()
    found.notices = notices(table, found.columns, asked)
    return found


def wrong_encoding(table: Table, *, said: str) -> str:
    """Why a guess is not good enough here: names that were misread would be written over names that were right."""
    if said or table.encoding != "cp1252":
        return ""
    return (
        "The file is not in UTF-8. Save it as “CSV UTF-8”, or say which encoding it is in, such as cp1252: "
        "guessed wrongly, misread names would be written into the CRM."
    )


def notices(table: Table, columns: Columns, asked: Asked) -> list[str]:
    """What a person should know of a file that can be sent."""
    found = list(table.notices)
    if columns.unused:
        found.append(f"A deletion does not use {', '.join(columns.unused)}.")
    given = {column.field.name for column in (columns.key, *columns.fields, *columns.parents)}
    needed = [one.name for one in asked.object.fields.values() if one.needed and one.name not in given]
    if needed and asked.operation == Operation.UPSERT:
        found.append(f"A row whose record is not there yet will be refused: {', '.join(sorted(needed))} is not given.")
    return found


def rows_of(
    table: Table,
    *,
    columns: Columns,
    asked: Asked,
    problems: Problems,
    skip: int = 0,
    seen: Callable[[str], object] = str,
) -> Iterator[Row]:
    """The rows that can be sent, in order; the others become problems. The first `skip` records are passed over.

    `seen` is told every key that can be read, also of rows that cannot be sent.
    """
    for record in table.records():
        if record.number <= skip:
            continue
        if record.problem:
            problems.add(record.line, f"{record.problem[0].upper()}{record.problem[1:]}.")
            continue
        row = read_row(record.line, record.cells, columns=columns, asked=asked, problems=problems)
        if key := trimmed(record.cells[columns.key.place]):
            seen(key)
        if row is not None:
            yield row


def read_row(line: int, cells: list[str], *, columns: Columns, asked: Asked, problems: Problems) -> Row | None:
    """One row, or None and its problems."""
    before = problems.count
    key = trimmed(cells[columns.key.place])
    if text := unusable_key(key, columns.key):
        problems.add(line, f"{columns.key.header} {text}.")
    fields: dict[str, Any] = {}
    for column in columns.fields:
        if (text := cells[column.place]) and not text.isspace():
            try:
                fields[column.field.name] = typed(column.field, text)
            except Wrong as wrong:
                problems.add(line, f"{column.header} {wrong}.")
    parents = []
    for column in columns.parents:
        if text := trimmed(cells[column.place]):
            try:
                parents.append(parent_of(column, parent_value(column, text), asked))
            except Wrong as wrong:
                problems.add(line, f"{column.header} {wrong}.")
    return Row(line, key, fields, parents) if problems.count == before else None


def parent_value(column: Column, text: str) -> str:
    """The parent's key or id. Raises Wrong."""
    if text == EMPTIED:
        raise Wrong("names the parent and cannot be emptied by a mass update")
    if column.by_id:
        return str(typed(column.field, text))
    if text in NO_KEYS:
        raise Wrong(f"cannot be {shown(text)}: no address can name it")
    return text


def unusable_key(key: str, column: Column) -> str:
    if not key or key == EMPTIED:
        return "is missing"
    if key in NO_KEYS:
        return f"cannot be {shown(key)}: no address can name it"
    if column.field.length and len(key) > column.field.length:
        return f"has {len(key):,} characters; it holds {column.field.length:,}"
    return ""


def same_key(key: str, column: Column) -> str:
    """One form for all spellings of a key that are one record to the org."""
    return key if column.field.case_sensitive else key.casefold()


def lock_keys(row: Row, asked: Asked) -> tuple[str, ...]:
    return lockkeys.parent_keys(
        asked.policy,
        object=asked.object.name,
        operation=lockpolicy.deed(asked.operation, creating=True),  # an upsert may turn out to be one
        target=row.parents,
        confirmed=(),
        fields=row.fields,
    )


def doubled(table: Table, *, columns: Columns, twice: set[int]) -> Iterator[Problem]:
    """The lines whose key an earlier line has, among the keys with these hashes."""
    first: dict[str, int] = {}
    for record in table.records():
        if record.problem:
            continue
        key = same_key(trimmed(record.cells[columns.key.place]), columns.key)
        if key and hash(key) in twice and (line := first.setdefault(key, record.line)) != record.line:
            yield Problem(record.line, f"{columns.key.header} is that of line {line}, too: which of them counts?")
