"""The objects of the org, read from schema.json: their fields, their relations, and which parents a write locks."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

Moment = Literal["always", "if_changed", "when", "never"]
Operation = Literal["insert", "update", "delete"]


class BadSchema(Exception):
    """The file is no schema; the text says why."""


@dataclass(frozen=True)
class Condition:
    """Holds while the record's field is something else than the value."""

    field: str
    is_not: Any


@dataclass(frozen=True)
class LockPolicy:
    """When a write of the child locks the parent it points to.

    `if_changed`: only when the write moves the child, and then both parents. `when`: only while all conditions hold.
    `also`: reference fields of the parent whose targets are locked with it.
    """

    insert: Moment = "never"
    update: Moment = "never"
    delete: Moment = "never"
    when: tuple[Condition, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class RollUp:
    """Counts the children that point here by their field `by`, or adds up their field `sum`. `ms`: what it costs to
    save one parent anew, in which its locks are held."""

    child: str
    by: str
    sum: str = ""
    counts: str = ""
    ms: float = 0.0

    def share(self, child: Mapping[str, Any] | None) -> float:
        """What this child adds to its parent."""
        if child is None or child["IsDeleted"] or child[self.by] is None:
            return 0.0
        if self.counts and child[self.counts] is None:
            return 0.0
        return float(child[self.sum] or 0.0) if self.sum else 1.0


@dataclass(frozen=True)
class Field:
    """One field. `source` says where the lock rule of a relation is written down."""

    name: str
    type: str
    length: int = 0
    precision: int = 0
    scale: int = 0
    required: bool = False
    unique: bool = False
    external_id: bool = False
    read_only: bool = False
    owner: bool = False
    default: Any = None
    values: tuple[str, ...] = ()
    restricted: bool = False
    joins: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    relationship: str = ""
    kind: str = ""
    locks: LockPolicy = LockPolicy()
    source: str = ""
    rollup: RollUp | None = None

    @property
    def writable(self) -> bool:
        return not self.read_only and not self.joins

    @property
    def label(self) -> str:
        plain = self.name.removesuffix("__c").replace("_", " ")
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain).replace(" Id", " ID")


@dataclass(frozen=True)
class SObject:
    """One object: its fields by name. `field` finds a field in any case, as the API does."""

    name: str
    prefix: str
    label: str
    plural: str
    fields: Mapping[str, Field] = field(repr=False, compare=False)

    @cached_property
    def _by_lower(self) -> dict[str, Field]:
        return {name.lower(): value for name, value in self.fields.items()}

    @cached_property
    def _by_relationship(self) -> dict[str, Field]:
        return {value.relationship.lower(): value for value in self.fields.values() if value.relationship}

    def field(self, name: str) -> Field | None:
        return self._by_lower.get(name.lower())

    def relation(self, relationship: str) -> Field | None:
        """The reference field behind a relationship name: `Account` for AccountId."""
        return self._by_relationship.get(relationship.lower())

    @cached_property
    def references(self) -> tuple[Field, ...]:
        return tuple(value for value in self.fields.values() if value.type == "reference")

    @cached_property
    def sought(self) -> tuple[Field, ...]:
        """The fields by whose value records are looked up."""
        return tuple(
            value for value in self.fields.values() if value.unique or value.external_id or value.type == "email"
        )

    @cached_property
    def uniques(self) -> tuple[Field, ...]:
        return tuple(value for value in self.fields.values() if value.unique)


class Schema:
    """All objects, and for each the rank that puts every parent object before its children."""

    def __init__(self, objects: Mapping[str, SObject], automation: Sequence[Mapping[str, Any]] = ()) -> None:
        self.objects = objects
        self.automation = automation
        self._by_lower = {name.lower(): value for name, value in objects.items()}
        self._by_prefix = {value.prefix: value for value in objects.values()}
        parents = {
            name: {to for reference in value.references for to in reference.to if to != name}
            for name, value in objects.items()
        }
        self.rollups: dict[str, list[tuple[SObject, Field, RollUp]]] = {name: [] for name in objects}
        for value in objects.values():
            for known in value.fields.values():
                if known.rollup:
                    self.rollups[known.rollup.child].append((value, known, known.rollup))
        self.ranks = {name: rank for rank, name in enumerate(TopologicalSorter(parents).static_order())}

    def find(self, name: str) -> SObject | None:
        return self._by_lower.get(name.lower())

    def of_id(self, record_id: str) -> SObject | None:
        return self._by_prefix.get(record_id[:3])


def load(path: Path | None = None) -> Schema:
    """The schema in the file, by default the package's schema.json. A relation cycle between two objects is refused: it
    could deadlock. Raises OSError and BadSchema."""
    text = path.read_text("utf-8") if path else files(__package__).joinpath("schema.json").read_text("utf-8")
    objects = {}
    try:
        document = json.loads(text)
        for name, spec in document["objects"].items():
            fields = {key: _field(key, value) for key, value in {**document["system"], **spec["fields"]}.items()}
            objects[name] = SObject(name, spec["prefix"], spec["label"], spec["plural"], fields)
        return Schema(objects, document.get("automation", ()))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadSchema(f"{path} is no schema: {error!r}") from None


def seed() -> dict[str, list[dict[str, Any]]]:
    """The records a new org starts with, by object: its users, the integration user first."""
    rows: dict[str, list[dict[str, Any]]] = json.loads(files(__package__).joinpath("seed.json").read_text("utf-8"))
    return rows


def _field(name: str, spec: dict[str, Any]) -> Field:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in spec.items()}
    if "locks" in spec:
        locks = dict(spec["locks"])
        locks["when"] = tuple(Condition(**condition) for condition in locks.get("when", ()))
        locks["also"] = tuple(locks.get("also", ()))
        values["locks"] = LockPolicy(**locks)
    if "rollup" in spec:
        values |= {"rollup": RollUp(**spec["rollup"]), "read_only": True, "default": 0.0}
    return Field(name, **values)
