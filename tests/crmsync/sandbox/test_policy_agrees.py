"""The product plans its writes by a lock policy of its own; it must know every parent that the sandbox org locks."""

from crmsync.lockpolicy import POLICY
from crmsync.sandbox import schema


def test_both_policies_lock_the_same_parents_of_what_the_product_writes() -> None:
    objects = schema.load().objects
    for name, relations in POLICY.items():
        locked = {
            reference.relationship: (reference.to, reference.locks.update == "if_changed")
            for reference in objects[name].references
            if reference.locks.insert != "never"
        }
        declared = {relation: ((policy.parent,), policy.if_changed) for relation, policy in relations.items()}
        assert declared == locked, name


def test_every_lock_rule_names_its_source() -> None:
    for sobject in schema.load().objects.values():
        for reference in sobject.references:
            assert reference.read_only or reference.source, f"{sobject.name}.{reference.name}"
