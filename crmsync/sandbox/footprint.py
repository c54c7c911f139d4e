"""What the write of a record touches beside it: the parents it locks or that roll it up, and what triggers lock.

Roll-ups are carried on: the parent goes through a save of its own, so its parents are locked, and rolled up, in turn.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from crmsync.sandbox.automation import Automation
from crmsync.sandbox.facts import Facts
from crmsync.sandbox.locks import LockKey
from crmsync.sandbox.schema import Field, LockPolicy, Moment, Operation, Schema, SObject
from crmsync.sandbox.store import Record

Look = Callable[[SObject, str], Record | None]
GROUPS = "GROUP"  # the org-wide lock on group membership: "Designing Record Access for Enterprise Scale"


class Footprint:
    """Works out locks and roll-ups by the schema's policy, the settings and the triggers in force."""

    def __init__(self, schema: Schema, facts: Facts, automation: Automation) -> None:
        self._schema = schema
        self._facts = facts
        self._automation = automation

    def key(self, record_id: str) -> LockKey:
        """The lock of a record. Ids of no known object, which only triggers lock, come after all others."""
        sobject = self._schema.of_id(record_id)
        return LockKey(self._schema.ranks[sobject.name] if sobject else len(self._schema.objects) + 1, record_id)

    def policy(self, sobject: SObject, reference: Field) -> LockPolicy:
        """The lock rule of the relation: the schema's, unless a setting says otherwise."""
        policy = reference.locks
        if not self._facts.relation_locks and (reference.kind == "lookup" or self._facts.detail_update_locks_master):
            return policy
        if reference.kind == "master-detail" and not self._facts.detail_update_locks_master:
            policy = replace(policy, update="if_changed")
        changes: Any = self._facts.relation_locks.get(f"{sobject.name}.{reference.name}", {})
        return replace(policy, **changes)

    def locks(
        self, operation: Operation, sobject: SObject, before: Record | None, after: Record, look: Look
    ) -> Iterator[LockKey]:
        """The record, the unique values it takes, the parents that the policy names, what triggers lock."""
        if before is not None:
            yield self.key(after["Id"])
        for known in sobject.uniques:
            value = after[known.name]
            if (
                value is not None
                and operation != "delete"
                and (before is None or fold(before[known.name]) != fold(value))
            ):
                yield LockKey(len(self._schema.objects), f"{sobject.name}.{known.name}={fold(value)}", is_record=False)
        for reference in sobject.references:
            policy = self.policy(sobject, reference)
            for parent_id in _parents(getattr(policy, operation), policy, reference, before, after):
                yield self.key(parent_id)
                yield from self._also(policy, parent_id, look)
        for trigger in self._automation.triggers(sobject.name, operation):
            for lock in trigger.locks:
                yield self.key(lock)
        if (
            self._facts.owner_change_locks_groups
            and before is not None
            and before.get("OwnerId") != after.get("OwnerId")
        ):
            yield LockKey(len(self._schema.objects) + 2, GROUPS, is_record=False)

    def roll_up(
        self, sobject: SObject, before: Record | None, after: Record, look: Look
    ) -> tuple[list[tuple[SObject, Record]], set[LockKey]]:
        """The parents with their new sums, and every lock that saving them takes."""
        saved: dict[str, tuple[SObject, Record]] = {}
        locks: set[LockKey] = set()
        self._carry(sobject, before, after, look, saved, locks)
        return list(saved.values()), locks

    def _carry(
        self,
        sobject: SObject,
        before: Record | None,
        after: Record,
        look: Look,
        saved: dict[str, tuple[SObject, Record]],
        locks: set[LockKey],
    ) -> None:
        """Add to `saved` and `locks` what this change makes of the parents, and of theirs."""
        touched: dict[str, tuple[SObject, Record]] = {}
        for parent_object, known, rollup in self._schema.rollups[sobject.name]:
            for child, sign in ((before, -1.0), (after, 1.0)):
                share = rollup.share(child)
                parent_id = child[rollup.by] if child is not None and share else None
                parent = saved[parent_id][1] if parent_id in saved else parent_id and look(parent_object, parent_id)
                if parent_id and parent:
                    touched.setdefault(parent_id, (parent_object, parent))
                    saved[parent_id] = (
                        parent_object,
                        {**parent, known.name: (parent[known.name] or 0.0) + sign * share},
                    )
        for parent_id, (parent_object, was) in touched.items():
            now = saved[parent_id][1]
            if now == was:
                if was is look(parent_object, parent_id):
                    del saved[parent_id]
                continue
            locks.update(self.locks("update", parent_object, was, now, look))
            self._carry(parent_object, was, now, look, saved, locks)

    def _also(self, policy: LockPolicy, parent_id: str, look: Look) -> Iterator[LockKey]:
        parent_object = self._schema.of_id(parent_id)
        if policy.also and parent_object is not None:
            parent = look(parent_object, parent_id) or {}
            for name in policy.also:
                if parent.get(name):
                    yield self.key(parent[name])


def fold(value: Any) -> Any:
    """The value as unique fields compare it."""
    return value.casefold() if isinstance(value, str) else value


def _parents(moment: Moment, policy: LockPolicy, reference: Field, before: Record | None, after: Record) -> set[str]:
    old = before[reference.name] if before else None
    new = after[reference.name]
    if moment == "never" or (moment == "if_changed" and old == new):
        return set()
    if moment == "when" and any(after[rule.field] == rule.is_not for rule in policy.when):
        return set()
    return {parent for parent in (old, new) if parent}
