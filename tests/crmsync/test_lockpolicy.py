"""Lock keys, and the declared policy beside the sandbox org's own."""

import json
from pathlib import Path

from crmsync.lockpolicy import POLICY, key_of, long_id, parent_keys, record_key

SCHEMA = Path(__file__).resolve().parents[2] / "crmsync" / "sandbox" / "schema.json"
ACME = {"relation": "Account", "object": "Account", "external_id": "acme"}
ACME_BY_ID = {"relation": "Account", "object": "Account", "crm_id": "0015R0000000001"}
OTHER = {"relation": "Account", "object": "Account", "external_id": "other"}


def test_the_declared_policy_locks_what_the_sandbox_org_locks() -> None:
    objects = json.loads(SCHEMA.read_text())["objects"]
    for name, declared in POLICY.items():
        locking = {
            field["relationship"]: field
            for field in objects[name]["fields"].values()
            if field["type"] == "reference" and field["locks"]["insert"] != "never"
        }
        assert set(declared) == set(locking), name
        for relation, field in locking.items():
            assert declared[relation].parent in field["to"], relation
            assert declared[relation].if_changed == (field["locks"]["update"] == "if_changed"), relation


def test_one_parent_is_one_key_by_external_id_by_short_and_by_long_crm_id() -> None:
    known = {("Account", long_id("0015R0000000001")): "acme"}
    long = {**ACME_BY_ID, "crm_id": long_id("0015R0000000001")}
    assert key_of(ACME, known) == key_of(ACME_BY_ID, known) == key_of(long, known) == "Account:acme"
    assert key_of(ACME_BY_ID, {}) == key_of(long, {}) != "Account:acme"


def test_the_long_id_says_which_letters_are_capitals() -> None:
    assert long_id("0015R0000000001") == "0015R0000000001QAA"
    assert long_id("0015R0000000001QAA") == "0015R0000000001QAA"


def test_spelling_of_an_external_id_makes_no_second_lane() -> None:
    assert record_key("Lead", "ABC") == record_key("Lead", "abc")


def test_a_contact_locks_its_confirmed_account_even_where_the_message_does_not_name_it() -> None:
    assert parent_keys(object="Contact", target=(), confirmed=(ACME,), known={}) == ("Account:acme",)


def test_a_contact_that_moves_locks_both_accounts() -> None:
    keys = parent_keys(object="Contact", target=(OTHER,), confirmed=(ACME,), known={})
    assert keys == ("Account:acme", "Account:other")


def test_an_account_locks_its_parent_only_when_it_is_new_or_changes() -> None:
    parent = {"relation": "Parent", "object": "Account", "external_id": "holding"}
    assert parent_keys(object="Account", target=(parent,), confirmed=(parent,), known={}) == ()
    assert parent_keys(object="Account", target=(parent,), confirmed=(), known={}) == ("Account:holding",)


def test_a_relation_nobody_declared_counts_as_one_that_locks() -> None:
    assert parent_keys(object="Lead", target=(ACME,), confirmed=(), known={}) == ("Account:acme",)
