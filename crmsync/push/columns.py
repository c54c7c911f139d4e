"""What each column of a file means in the org: the key, a field, or the parent of the row."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crmsync import lockpolicy
from crmsync.describe import FieldInfo, ObjectInfo, same
from crmsync.models import Operation
from crmsync.push.problems import Problem
from crmsync.push.values import UNSENDABLE

NOT_PARENTS = {"User", "Group", "RecordType", "Profile", "UserRole", "BusinessHours"}
"""What is referred to without being locked by the row's writing: such a reference is a field like any other."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its place in the row, its header, and the field it fills.

    `parent` names the relation where the cell names a parent: by external id, or, if `by_id`, by Salesforce's own.
    """

    place: int
    header: str
    field: FieldInfo
    parent: str = ""
    by_id: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """The header as a whole. `unused`: columns that a deletion does not need."""

    key: Column
    fields: tuple[Column, ...]
    parents: tuple[Column, ...]
    unused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What the person said: what is done to which object, by which key, and which column names the parent.

    `policy`: what a write will lock in this org.
    """

    object: ObjectInfo
    operation: Operation
    key: str
    parent: str = ""
    policy: lockpolicy.Policy = lockpolicy.USUAL


def read_columns(header: Sequence[str], *, asked: Asked, line: int) -> tuple[Columns | None, list[Problem]]:
    """What the columns mean, or None, and everything that is wrong with them. `line`: where the header stands."""
    problems: list[Problem] = []
    key: Column | None = None
    fields: list[Column] = []
    parents: list[Column] = []
    unused: list[str] = []

    def wrong(text: str) -> None:
        problems.append(Problem(line, text))

    taken: dict[str, str] = {}
    for place, name in enumerate(header):
        if not name:
            wrong(f"Column {place + 1} has no name.")
            continue
        column = meaning(place, name, asked)
        if isinstance(column, str):
            wrong(column)
            continue
        if (other := taken.setdefault(column.field.name, name)) != name or header[:place].count(name):
            wrong(f"Columns “{other}” and “{name}” both fill {column.field.name}.")
        elif same(column.field.name, asked.key):
            key = column
        elif column.parent:
            parents.append(column)
        elif asked.operation == Operation.DELETE:
            unused.append(name)
        elif text := unwritable(column.field, asked.operation):
            wrong(f"“{name}” {text}")
        else:
            fields.append(column)
    if key is None:
        wrong(f"There is no column {asked.key}, by which the records are known.")
    if asked.parent and not any(same(column.header, asked.parent) for column in parents):
        wrong(f"There is no column {asked.parent}, which should name the parent.")
    if key and not problems and not fields and not parents and asked.operation != Operation.DELETE:
        wrong(f"There is no column beside {asked.key}: nothing would be changed.")
    found = Columns(key, tuple(fields), tuple(parents), tuple(unused)) if key and not problems else None
    return found, problems


def meaning(place: int, name: str, asked: Asked) -> Column | str:
    """The column's meaning, or what is wrong with it."""
    if "." in name:
        return parent_by_key(place, name, asked)
    field = asked.object.field(name)
    if field is None:
        near = difflib.get_close_matches(name, asked.object.fields, n=1)
        return f"“{name}” is no field of {asked.object.name}." + (f" Is {near[0]} meant?" if near else "")
    if field.type == "reference" and not set(field.refers_to) <= NOT_PARENTS:
        return Column(place, name, field, parent=field.relation, by_id=True)
    return Column(place, name, field)


def parent_by_key(place: int, name: str, asked: Asked) -> Column | str:
    """Account.Rota_Id__c: the parent by its external id."""
    relation, _, key = name.partition(".")
    field = asked.object.relation(relation)
    if field is None:
        return f"“{name}”: {asked.object.name} has no relation {relation}."
    if len(field.refers_to) != 1:
        return f"“{name}” may be of {' or '.join(field.refers_to)}: give its Salesforce id in a column {field.name}."
    if not same(key, asked.key):
        return f"“{name}”: parents are known by {asked.key}, too."
    if set(field.refers_to) <= NOT_PARENTS:
        return f"“{name}”: give the Salesforce id in a column {field.name}."
    return Column(place, name, field, parent=field.relation)


def unwritable(field: FieldInfo, operation: Operation) -> str:
    """Why no row can fill the field, or nothing."""
    if field.type in UNSENDABLE:
        return f"is of the type {field.type}, which no cell can fill."
    if not field.updateable and (operation == Operation.UPDATE or not field.createable):
        return "cannot be written, says the org."
    return ""


def parent_of(column: Column, value: Any, asked: Asked) -> dict[str, str]:
    """A parent as outbox messages name it."""
    if not column.by_id:
        return {"relation": column.parent, "object": column.field.refers_to[0], "external_id": value}
    kind = asked.object.prefixes.get(value[:3], column.field.refers_to[0])
    return {"relation": column.parent, "object": kind, "crm_id": value}
