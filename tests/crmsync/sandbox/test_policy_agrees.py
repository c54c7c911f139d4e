"""The product plans its writes by a lock policy of its own; it must know every parent that the sandbox org locks."""

from crmsync.lockpolicy import STANDARD, TASK, declared
from crmsync.sandbox import schema

CUSTOM = {
    "Visit__c.Account__r": "master-detail",
    "Visit__c.Contact__r": "cleared-lookup",
    "Visit_Item__c.Visit__r": "roll-up",
    "Visit_Item__c.Campaign__r": "restricted-lookup",
}


def test_both_policies_lock_the_same_parents_in_the_same_moments() -> None:
    policy = declared(CUSTOM)
    objects = schema.load().objects
    assert set(STANDARD) < set(objects)
    for name in policy.relations:
        for reference in objects[name].references:
            if reference.owner or reference.read_only:
                continue
            rule, theirs = policy.relation(name, reference.relationship), reference.locks
            moments = (theirs.insert, theirs.update, theirs.delete)
            if name == "Task":
                assert rule is TASK and moments == ("when", "always", "always")
                assert {(each.field, each.is_not) for each in theirs.when} <= set(rule.not_if)
                assert tuple(f"{also}Id" for also in rule.also) == tuple(theirs.also)
            else:
                assert (rule.insert, rule.update, rule.delete) == moments, f"{name}.{reference.name}"


def test_every_lock_rule_names_its_source() -> None:
    for sobject in schema.load().objects.values():
        for reference in sobject.references:
            assert reference.read_only or reference.source, f"{sobject.name}.{reference.name}"
