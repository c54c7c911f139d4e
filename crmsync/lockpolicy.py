"""What a write will lock in the org, as one declared table: which relations, in which moment, and what beyond them.

Salesforce locks the targets of a lookup when a child is written; who writes two children of one parent at once makes
one of them wait, for ten seconds at most, and then fail. Rota therefore holds a lane for every key while it writes.
The policy is declared, not observed: what it does not name (triggers, flows, other writers) still shows up as
contention and is backed off from. `lockkeys` turns it into the keys of a row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Moment = Literal["always", "if_changed", "never"]
Operation = Literal["insert", "update", "delete"]

GROUPS = "GROUP"  # the key of the org's one lock on group membership


@dataclass(frozen=True, slots=True)
class Relation:
    """When a write of the child locks the parent.

    `if_changed`: an update that keeps the parent does not lock it. `not_if`: an insert that sets one of these fields
    to this value locks nothing. `also`: relations of the parent whose targets are locked with it. `rolls_up`: the
    parent is saved with the child, so that its own parents are locked as by an update of it.
    """

    insert: Moment = "always"
    update: Moment = "always"
    delete: Moment = "always"
    not_if: tuple[tuple[str, Any], ...] = ()
    also: tuple[str, ...] = ()
    rolls_up: bool = False

    def locks(self, *, operation: Operation, fields: Mapping[str, Any], changed: bool) -> bool:
        """Whether this write of a child locks this parent; `changed`: it was not the parent before, or is not now."""
        moment: Moment = getattr(self, operation)
        if operation == "insert" and any(name in fields and fields[name] == value for name, value in self.not_if):
            return False
        return moment == "always" or (moment == "if_changed" and changed)


ALWAYS = Relation()
IF_CHANGED = Relation(update="if_changed", delete="never")
NEVER = Relation(insert="never", update="never", delete="never")
# Rota's names of the fields, and Salesforce's own.
TASK = Relation(
    not_if=(("status", "Completed"), ("Status", "Completed"), ("due_on", None), ("ActivityDate", None)),
    also=("Account",),
)

# What a person may declare of a custom relation (CRM_RELATIONS), in Salesforce's words. Sources: "Record-Level Locking"
# for master-detail and roll-ups; its cheat sheet for lookups, which lock nothing where deleting the parent clears them.
KINDS: Mapping[str, Relation] = {
    "master-detail": ALWAYS,
    "roll-up": Relation(rolls_up=True),
    "lookup": ALWAYS,
    "restricted-lookup": IF_CHANGED,
    "cleared-lookup": NEVER,
}

# Sources: Salesforce, "Managing Lookup Skew" (2013), "Record-Level Locking" and its cheat sheet, and for tasks the Data
# Architect guide. Where they differ on updates that keep the parent, a lookup to an account counts as locking.
STANDARD: Mapping[str, Mapping[str, Relation]] = {
    "Lead": {},
    "Account": {"Parent": IF_CHANGED},
    "Campaign": {"Parent": IF_CHANGED},
    "Contact": {"Account": ALWAYS},
    "Opportunity": {"Account": ALWAYS, "Campaign": IF_CHANGED},
    "CampaignMember": {"Campaign": ALWAYS, "Lead": IF_CHANGED, "Contact": IF_CHANGED},
    "Task": {"Who": TASK, "What": TASK},
    "AccountTeamMember": {"Account": Relation(update="never"), "User": NEVER},
}


@dataclass(frozen=True, slots=True)
class Policy:
    """The table in force. `owner_locks`: objects whose change of owner takes the org's lock on group membership."""

    relations: Mapping[str, Mapping[str, Relation]] = field(default_factory=lambda: STANDARD)
    owner_locks: frozenset[str] = frozenset()

    def relation(self, object: str, name: str) -> Relation:
        """The rule of one relation. One that nobody declared locks always: too wide a lock costs a little time."""
        return self.relations.get(object, {}).get(name, ALWAYS)

    def looks_beyond(self, object: str) -> bool:
        """Whether what a write of the object locks depends on the parents of its parents."""
        return any(rule.rolls_up or rule.also for rule in self.relations.get(object, {}).values())

    def locked_when_saved(self, object: str) -> Iterable[tuple[str, Relation]]:
        """The relations of an object whose targets are locked whenever a record of it is saved."""
        return [(name, rule) for name, rule in self.relations.get(object, {}).items() if rule.update == "always"]


def declared(relations: Mapping[str, str], *, owner_locks: Iterable[str] = ()) -> Policy:
    """The standard table with what was declared of this org: `{"Visit__c.Account__r": "roll-up"}`, a kind of KINDS.

    Raises ValueError for a name that is not `Object.Relation`, as the name of the relation's field is not.
    """
    table = {name: dict(rules) for name, rules in STANDARD.items()}
    for name, kind in relations.items():
        object, dot, relation = name.partition(".")
        if not (object and dot and relation):
            raise ValueError(f"'{name}' should be Object.Relation, such as Visit__c.Account__r.")
        if relation.endswith("__c") or (relation.endswith("Id") and relation != "Id"):
            meant = f"{relation.removesuffix('__c')}__r" if relation.endswith("__c") else relation.removesuffix("Id")
            raise ValueError(f"'{name}' names the field; write the relation, {object}.{meant}.")
        table.setdefault(object, {})[relation] = KINDS[kind]
    return Policy(relations=table, owner_locks=frozenset(owner_locks))


def deed(operation: str, *, creating: bool) -> Operation:
    """What the org will do for an operation of Rota's (upsert, update, delete), in the words of this policy."""
    if operation == "delete":
        return "delete"
    return "insert" if creating and operation == "upsert" else "update"


USUAL = declared({})
