"""What one row would change and which locks that takes: worked out before the wait and again after it."""

from dataclasses import dataclass, field
from typing import Any

from crmsync.sandbox import ids
from crmsync.sandbox.automation import Automation
from crmsync.sandbox.errors import RowError, duplicate_value
from crmsync.sandbox.footprint import Footprint, fold
from crmsync.sandbox.locks import LockKey
from crmsync.sandbox.rows import Draft, Row
from crmsync.sandbox.schema import Field, Operation, Schema, SObject
from crmsync.sandbox.store import Record, Store


@dataclass(frozen=True)
class Target:
    """The record a row is about. Whether an upsert makes or changes one is settled when it arrives, before it waits; so
    of two that make the same external id at once the second is told DUPLICATE_VALUE, as by Salesforce."""

    record_id: str
    is_new: bool


@dataclass(frozen=True)
class Change:
    """The whole record as it will be, the parents that roll it up as they will be, every lock that the write needs."""

    sobject: SObject
    after: Record
    locks: frozenset[LockKey]
    rolled: tuple[tuple[SObject, Record], ...] = ()


@dataclass
class View:
    """The committed records with the changes of this transaction on top. Good until the event loop goes on."""

    store: Store
    mine: dict[str, tuple[SObject, Record]] = field(default_factory=dict)
    _read: dict[str, Record | None] = field(default_factory=dict)
    _values: dict[tuple[str, str, Any], set[str]] = field(default_factory=dict)

    def get(self, sobject: SObject, record_id: str) -> Record | None:
        if record_id in self.mine:
            return self.mine[record_id][1]
        if record_id not in self._read:
            self._read[record_id] = self.store.get(sobject, record_id)
        return self._read[record_id]

    def ids_with(self, sobject: SObject, by: Field, value: Any) -> list[str]:
        wanted = fold(value)
        found = [found for found in self.store.ids_with(sobject, by, value) if found not in self.mine]
        for record_id in sorted(self._values.get((sobject.name, by.name, wanted), ())):
            record = self.mine[record_id][1]
            if not record["IsDeleted"] and fold(record[by.name]) == wanted:
                found.append(record_id)
        return found

    def put(self, change: Change) -> None:
        for sobject, record in ((change.sobject, change.after), *change.rolled):
            self.mine[record["Id"]] = (sobject, record)
            for known in sobject.sought:
                if record[known.name] is not None:
                    key = (sobject.name, known.name, fold(record[known.name]))
                    self._values.setdefault(key, set()).add(record["Id"])


class Planner:
    """Works out changes against a view. `integration_user` owns what names no owner."""

    def __init__(self, schema: Schema, footprint: Footprint, automation: Automation, integration_user: str) -> None:
        self._schema = schema
        self._footprint = footprint
        self._automation = automation
        self._integration_user = integration_user

    def key(self, record_id: str) -> LockKey:
        """The lock of a record."""
        return self._footprint.key(record_id)

    def plan(self, row: Row, draft: Draft, target: Target, view: View) -> Change:
        """The change this row makes to what the view shows. Raises RowError."""
        before = None if target.is_new else view.get(row.sobject, target.record_id)
        if before is None and not target.is_new:
            raise RowError("INVALID_CROSS_REFERENCE_KEY", "invalid cross reference id")
        if before is not None and before["IsDeleted"]:
            raise RowError("ENTITY_IS_DELETED", "entity is deleted")
        if row.action == "delete":
            assert before is not None
            return self._change("delete", row.sobject, before, {**before, "IsDeleted": 1}, view)
        if before is not None and before.get("IsConverted"):
            raise RowError("CANNOT_UPDATE_CONVERTED_LEAD", "cannot reference converted lead")
        given = {**draft.values, **self._linked(draft, view)}
        after = self.complete(row.sobject, target.record_id, given, before)
        self._check_required(row.sobject, after)
        touched = after if before is None else given
        self._check_parents(row.sobject, after, touched, view)
        self._check_unique(row, after, touched, view)
        operation: Operation = "update" if before else "insert"
        self._automation.check(row.sobject.name, operation, before, after)
        self._check_duplicates(row, after, touched, view)
        return self._change(operation, row.sobject, before, after, view)

    def _change(
        self, operation: Operation, sobject: SObject, before: Record | None, after: Record, view: View
    ) -> Change:
        rolled, locks = self._footprint.roll_up(sobject, before, after, view.get)
        locks.update(self._footprint.locks(operation, sobject, before, after, view.get))
        return Change(sobject, after, frozenset(locks), tuple(rolled))

    def complete(self, sobject: SObject, record_id: str, given: Record, before: Record | None = None) -> Record:
        """The whole record: what it was, or the defaults of a new one, with the given values and the joined names."""
        whole: Record = dict(before or {"Id": record_id})
        for name, known in sobject.fields.items():
            if name not in whole:
                default = self._integration_user if known.owner else known.default
                whole[name] = int(bool(default)) if known.type == "boolean" else default
        whole.update(given)
        for name, known in sobject.fields.items():
            if known.joins:
                whole[name] = " ".join(whole[part] for part in known.joins if whole[part]) or None
        return whole

    def _linked(self, draft: Draft, view: View) -> Record:
        linked = {}
        for link in draft.links:
            parent = self._schema.objects[link.sobject_name]
            by = parent.field(link.by)
            if by is None or not (by.external_id or by.unique):
                raise RowError(
                    "INVALID_FIELD",
                    f"Field name provided, {link.by} is not an External ID or indexed field for {parent.name}",
                )
            found = view.ids_with(parent, by, link.value)
            if not found:
                text = f"Foreign key external ID: {link.value} not found for field {by.name} in entity {parent.name}"
                raise RowError("INVALID_FIELD", text)
            if len(found) > 1:
                raise many_found(found)
            linked[link.reference.name] = found[0]
        return linked

    @staticmethod
    def _check_required(sobject: SObject, after: Record) -> None:
        missing = [name for name, known in sobject.fields.items() if known.required and after[name] is None]
        if missing:
            text = f"Required fields are missing: [{', '.join(missing)}]"
            raise RowError("REQUIRED_FIELD_MISSING", text, missing)

    def _check_parents(self, sobject: SObject, after: Record, touched: Record, view: View) -> None:
        for reference in sobject.references:
            parent_id = after[reference.name]
            if reference.name not in touched or parent_id is None or not reference.writable:
                continue
            parent_object = self._schema.of_id(parent_id)
            if parent_object is None or parent_object.name not in reference.to:
                text = f"{reference.label}: id value of incorrect type: {parent_id}"
                raise RowError("MALFORMED_ID", text, [reference.name])
            parent = view.get(parent_object, parent_id)
            if parent is None:
                raise RowError("INVALID_CROSS_REFERENCE_KEY", "invalid cross reference id", [reference.name])
            if parent["IsDeleted"]:
                raise RowError("ENTITY_IS_DELETED", "entity is deleted")
            if parent.get("IsConverted"):
                raise RowError("CANNOT_UPDATE_CONVERTED_LEAD", "cannot reference converted lead", [reference.name])
            if reference.owner and not parent["IsActive"]:
                text = f"operation performed with inactive user [{parent_id}] as owner of {sobject.name.lower()}"
                raise RowError("INACTIVE_OWNER_OR_USER", text, [reference.name])

    @staticmethod
    def _check_unique(row: Row, after: Record, touched: Record, view: View) -> None:
        for known in row.sobject.uniques:
            if touched.get(known.name) is None:
                continue
            others = [other for other in view.ids_with(row.sobject, known, after[known.name]) if other != after["Id"]]
            if others:
                if row.key is not None and row.key[0] is known and others[0] in view.mine:
                    raise RowError("DUPLICATE_VALUE", f"Duplicate external id specified: {row.key[1]}", [known.name])
                raise duplicate_value(known.name, ids.short(others[0]))

    def _check_duplicates(self, row: Row, after: Record, touched: Record, view: View) -> None:
        for name in () if row.allow_duplicates else self._automation.duplicate_fields(row.sobject.name):
            known = row.sobject.fields[name]
            if touched.get(name) is not None:
                others = [each for each in view.ids_with(row.sobject, known, after[name]) if each != after["Id"]]
                if others:
                    raise RowError("DUPLICATES_DETECTED", "Use one of these records?", [])


def many_found(found: list[str]) -> RowError:
    return RowError("DUPLICATE_EXTERNAL_ID", f"More than one record found for external id field: [{', '.join(found)}]")
