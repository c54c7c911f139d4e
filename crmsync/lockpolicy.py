"""What a write will lock in the org: the record itself and, by the declared policy, its parents.

Salesforce locks the targets of a lookup when a child is written; who writes two children of one parent at once makes
one of them wait, for ten seconds at most, and then fail. Rota therefore holds a lane for every key while it writes.
The policy is declared, not observed: what it does not name (roll-ups, triggers, other writers) still shows up as
contention and is backed off from.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# Salesforce compares its own ids case-sensitively and external ids, by default, not.
ID_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"


@dataclass(frozen=True, slots=True)
class Relation:
    """One lookup of an object. `if_changed`: an update that keeps the parent does not lock it; an insert does."""

    parent: str
    if_changed: bool = False


# Sources: Salesforce, "Managing Lookup Skew" (2013), and its record-locking cheat sheet.
POLICY: Mapping[str, Mapping[str, Relation]] = {
    "Lead": {},
    "Contact": {"Account": Relation("Account")},
    "Account": {"Parent": Relation("Account", if_changed=True)},
}

Parent = Mapping[str, str]
Ids = Mapping[tuple[str, str], str]


def parent_keys(*, object: str, target: Sequence[Parent], confirmed: Sequence[Parent], known: Ids) -> tuple[str, ...]:
    """The lock keys of a record's parents, sorted.

    `target` is what the message names, `confirmed` what the CRM last confirmed; while a parent changes both are locked.
    `known` maps (object, CRM id) to the external id of the record we have under it. A relation without a declared
    policy counts as one that always locks.
    """
    policy = POLICY.get(object, {})
    keys = set()
    before = {parent["relation"]: key_of(parent, known) for parent in confirmed}
    after = {**before, **{parent["relation"]: key_of(parent, known) for parent in target}}
    for relation, key in after.items():
        declared = policy.get(relation)
        if declared and declared.if_changed and before.get(relation) == key:
            continue
        keys.add(key)
        if relation in before:
            keys.add(before[relation])
    return tuple(sorted(keys))


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
