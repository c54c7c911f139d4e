"""What administrators have built into the org: triggers, flows, rules of validation, assignment and duplicates.

A new org has none but what its schema file declares under "automation"; more are added through the back door. Limits
are those of one synchronous Apex transaction ("Execution Governors and Limits"), spent by all its triggers together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_type_hints

from crmsync.sandbox.errors import RowError

LIMITS = {
    "soql": (100, "Too many SOQL queries: 101"),
    "query_rows": (50_000, "Too many query rows: 50001"),
    "dml": (150, "Too many DML statements: 151"),
    "futures": (50, "Too many future calls: 51"),
    "cpu_ms": (10_000, "Apex CPU time limit exceeded"),
}


class BadAutomation(ValueError):
    """What was declared is no trigger, flow or rule; the text says why."""


@dataclass(frozen=True)
class Trigger:
    """Apex or a record-triggered flow (`is_flow`) that runs when records of the object are saved.

    Costs are for each row: `ms` of time in which the locks are held, and what counts against the governor limits.
    `locks` are ids of further records it writes, such as the definition row of a roll-up tool; they may be of no known
    object. `refuses_field` and `refuses_value`: rows with that value are refused with `message`.
    """

    object: str
    name: str
    events: tuple[str, ...] = ("insert", "update", "delete")
    is_flow: bool = False
    is_active: bool = True
    ms: float = 0.0
    soql: float = 0.0
    query_rows: float = 0.0
    dml: float = 0.0
    futures: float = 0.0
    cpu_ms: float = 0.0
    locks: tuple[str, ...] = ()
    refuses_field: str = ""
    refuses_value: Any = None
    message: str = "This record is not allowed"

    def refuses(self, after: Mapping[str, Any]) -> bool:
        return bool(self.refuses_field) and after.get(self.refuses_field) == self.refuses_value


@dataclass(frozen=True)
class ValidationRule:
    """Refuses a record whose `field` has the `value`, or with `lower` one that would fall below what it was."""

    object: str
    name: str
    field: str
    message: str
    value: Any = None
    lower: bool = False
    is_active: bool = True

    def refuses(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        was, is_now = before.get(self.field), after.get(self.field)
        if self.lower:
            return was is not None and is_now is not None and bool(is_now < was)
        return bool(is_now == self.value)


@dataclass(frozen=True)
class AssignmentRule:
    """Gives new and changed records to the user with the id `owner`, unless the caller says not to
    (Sforce-Auto-Assign)."""

    object: str
    name: str
    owner: str
    id: str = "01Q5R0000000001"
    is_active: bool = True

    def is_meant(self, rule: str) -> bool:
        return self.is_active if rule == "active" else self.id[:15] == rule[:15]


@dataclass(frozen=True)
class DuplicateRule:
    """Refuses a record when another one of the object has the same value in the field, unless the caller allows it."""

    object: str
    name: str
    field: str = "Email"
    is_active: bool = True


Part = Trigger | ValidationRule | AssignmentRule | DuplicateRule
KINDS: Mapping[str, type[Any]] = {
    "trigger": Trigger,
    "validation_rule": ValidationRule,
    "assignment_rule": AssignmentRule,
    "duplicate_rule": DuplicateRule,
}


def kind_of(part: Part) -> str:
    return next(name for name, kind in KINDS.items() if isinstance(part, kind))


class Automation:
    """All that is built in. `add` takes `{"kind": "trigger", "object": "Contact", ...}`; `restore` leaves the first
    ones."""

    def __init__(self, declared: Iterable[Mapping[str, Any]], objects: Iterable[str]) -> None:
        self._objects = set(objects)
        self._declared = [_part_of(each, self._objects) for each in declared]
        self.parts: list[Part] = list(self._declared)

    def add(self, spec: Mapping[str, Any]) -> None:
        """Raises BadAutomation."""
        self.parts.append(_part_of(spec, self._objects))

    def restore(self) -> None:
        self.parts = list(self._declared)

    def triggers(self, name: str, event: str) -> list[Trigger]:
        """The active triggers of this object for insert, update or delete."""
        return [
            each
            for each in self.parts
            if isinstance(each, Trigger) and each.is_active and each.object == name and event in each.events
        ]

    def locking(self, name: str, lock: str) -> tuple[Trigger, str] | None:
        """The trigger of the object that wants this lock, and the event it is known by in error texts."""
        for each in self.parts:
            if isinstance(each, Trigger) and each.object == name and lock in each.locks:
                return each, "Update" if "update" in each.events else each.events[0].title()
        return None

    def owner_by(self, name: str, rule: str) -> str | None:
        """The owner that the assignment rule with this id gives, or with rule "active" the active rule of the
        object."""
        rules = [each for each in self.parts if isinstance(each, AssignmentRule) and each.object == name]
        return next((each.owner for each in rules if each.is_meant(rule)), None)

    def duplicate_fields(self, name: str) -> list[str]:
        return [
            each.field
            for each in self.parts
            if isinstance(each, DuplicateRule) and each.is_active and each.object == name
        ]

    def check(self, name: str, event: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> None:
        """Validation rules and what triggers refuse by themselves. Raises RowError."""
        for each in self.parts:
            if not each.is_active or each.object != name or event == "delete":
                continue
            if isinstance(each, ValidationRule) and each.refuses(before or {}, after):
                raise RowError("FIELD_CUSTOM_VALIDATION_EXCEPTION", each.message, [each.field])
            if isinstance(each, Trigger) and event in each.events and each.refuses(after):
                text = f"{each.name}: execution of Before{event.title()}\n\ncaused by: {each.message}\n\n"
                raise RowError("CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY", text)


def over_the_limits(runs: Sequence[tuple[Trigger, int]]) -> RowError | None:
    """The governor's refusal of a transaction in which these triggers run over so many rows each; it meets every
    row."""
    for unit, (most, text) in LIMITS.items():
        spent = 0.0
        for trigger, rows in runs:
            spent += getattr(trigger, unit) * rows
            if spent > most:
                message = f"{trigger.name}: System.LimitException: {text}"
                return RowError("CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY", message)
    return None


def wrapped(trigger: Trigger, event: str, lock: str, row_id: str, inner: RowError) -> RowError:
    """A lock failure of a trigger's own write, in the words in which Apex passes it on (public reports of roll-up
    tools)."""
    cause = f"System.DmlException: Update failed. First exception on row 0 with id {lock}; first error: {inner.code}"
    text = f"{trigger.name}: execution of After{event}\n\ncaused by: {cause}, {inner.message}: []\n\n{row_id}"
    return RowError("CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY", text)


def _checked(kind: type[Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    known = {each.name for each in fields(kind)}
    required = {each.name for each in fields(kind) if each.default is MISSING}
    if set(spec) - known or required - set(spec):
        raise BadAutomation(f"{kind.__name__} needs {sorted(required)} and knows {sorted(known - required)}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in spec.items()}
    for name, value in values.items():
        hint = hints[name]
        wanted = (int, float) if hint is float else tuple if "tuple" in str(hint) else object if hint is Any else hint
        if not isinstance(value, wanted):
            raise BadAutomation(f"{name} of {kind.__name__} cannot be {value}")
    return values


def _events_are_known(part: Part) -> bool:
    return not isinstance(part, Trigger) or (bool(part.events) and set(part.events) <= {"insert", "update", "delete"})


def _make(kind: type[Any], spec: Mapping[str, Any]) -> Part:
    part: Part = kind(**_checked(kind, spec))
    if not _events_are_known(part):
        raise BadAutomation("events are insert, update, delete")
    return part


def _part_of(spec: Mapping[str, Any], objects: set[str]) -> Part:
    kind = KINDS.get(str(spec.get("kind")))
    if kind is None or spec.get("object") not in objects:
        raise BadAutomation(f"kind is one of {', '.join(KINDS)}, object one of the org's")
    return _make(kind, {name: value for name, value in spec.items() if name != "kind"})
