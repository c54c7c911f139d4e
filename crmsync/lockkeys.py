"""The lock keys of a row: its own, and by the declared policy its parents' and theirs. Pure.

Each key is canonical: a Salesforce id, short or long, and an external id of one record are one key.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crmsync.lockpolicy import GROUPS, Operation, Policy

# Salesforce compares its own ids case-sensitively and external ids, by default, not.
ID_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
MOST_GENERATIONS = 5  # Salesforce allows no more levels of master-detail than three

Parent = Mapping[str, str]
Ids = Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Known:
    """What Rota knows of the records around: `ids` maps (object, CRM id) to an external id, `family` the key of a
    record to all the parents it has or is about to have."""

    ids: Ids = field(default_factory=dict)
    family: Mapping[str, Sequence[Parent]] = field(default_factory=dict)


NOTHING = Known()


def parent_keys(
    policy: Policy,
    *,
    object: str,
    operation: Operation,
    target: Sequence[Parent],
    confirmed: Sequence[Parent],
    fields: Mapping[str, Any],
    known: Known = NOTHING,
) -> tuple[str, ...]:
    """The lock keys beside the record's own, sorted.

    `target` is what the message names, `confirmed` what the CRM last confirmed; while a parent changes both are locked.
    """
    keys: set[str] = set()
    before = {parent["relation"]: parent for parent in confirmed}
    after = {**before, **{parent["relation"]: parent for parent in target}}
    for name, parent in after.items():
        rule = policy.relation(object, name)
        was = before.get(name)
        changed = was is None or key_of(was, known.ids) != key_of(parent, known.ids)
        if not rule.locks(operation=operation, fields=fields, changed=changed):
            continue
        for each in (parent, was) if was is not None else (parent,):
            key = key_of(each, known.ids)
            keys.add(key)
            for relation in rule.also:
                keys |= {key_of(other, known.ids) for other in family(key, known) if other["relation"] == relation}
            if rule.rolls_up:
                keys |= keys_of_saving(policy, each["object"], key, known, MOST_GENERATIONS)
    if operation == "update" and object in policy.owner_locks and "owner" in fields:
        keys.add(GROUPS)
    return tuple(sorted(keys))


def keys_of_saving(policy: Policy, object: str, key: str, known: Known, generations: int) -> set[str]:
    """What saving a record for its roll-up locks beyond it; of a record that Rota does not know, nothing."""
    keys: set[str] = set()
    if generations:
        for name, rule in policy.locked_when_saved(object):
            for parent in family(key, known):
                if parent["relation"] == name:
                    above = key_of(parent, known.ids)
                    keys.add(above)
                    if rule.rolls_up:
                        keys |= keys_of_saving(policy, parent["object"], above, known, generations - 1)
    return keys


def needs_family(policy: Policy, object: str, relation: str) -> bool:
    """Whether the keys of such a child depend on the parents of its parent."""
    rule = policy.relation(object, relation)
    return rule.rolls_up or bool(rule.also)


def family(key: str, known: Known) -> Sequence[Parent]:
    return known.family.get(key, ())


def key_of(parent: Parent, known: Ids) -> str:
    if "external_id" in parent:
        return record_key(parent["object"], parent["external_id"])
    crm_id = long_id(parent["crm_id"])
    if (external_id := known.get((parent["object"], crm_id))) is not None:
        return record_key(parent["object"], external_id)
    return f"{parent['object']}#{crm_id}"


def record_key(object: str, external_id: str) -> str:
    """One key for every spelling of one external id: too wide a lock costs a little time, too narrow a collision."""
    return f"{object}:{external_id.casefold()}"


def crm_ids(parents: Iterable[Parent]) -> set[tuple[str, str]]:
    """The (object, CRM id) pairs among the parents, to be looked up in one query."""
    return {(parent["object"], long_id(parent["crm_id"])) for parent in parents if "external_id" not in parent}


def long_id(crm_id: str) -> str:
    """The 18-letter form of a Salesforce id: the 15 letters and three that say which of them are capitals."""
    if len(crm_id) != 15:
        return crm_id
    suffix = ""
    for part in (crm_id[:5], crm_id[5:10], crm_id[10:]):
        suffix += ID_LETTERS[sum(1 << place for place, letter in enumerate(part) if letter in ID_LETTERS[:26])]
    return crm_id + suffix
