"""Which parents a write locks: the declared table, line by line, and the canonical keys."""

from typing import Any

import pytest

from crmsync.checks import the_relations_have_readable_names
from crmsync.lockkeys import Known, key_of, long_id, parent_keys, record_key
from crmsync.lockpolicy import GROUPS, Operation, Policy, declared

ACME = {"relation": "Account", "object": "Account", "external_id": "acme"}
ACME_BY_ID = {"relation": "Account", "object": "Account", "crm_id": "0015R0000000001"}
OTHER = {"relation": "Account", "object": "Account", "external_id": "other"}
STANDARD = declared({})
CUSTOM = declared(
    {
        "Visit__c.Account__r": "master-detail",
        "Visit__c.Contact__r": "cleared-lookup",
        "Visit_Item__c.Visit__r": "roll-up",
        "Visit_Item__c.Campaign__r": "restricted-lookup",
    },
    owner_locks=["Account"],
)


def parent(relation: str, object: str, external_id: str) -> dict[str, str]:
    return {"relation": relation, "object": object, "external_id": external_id}


def keys(
    object: str,
    *parents: dict[str, str],
    operation: Operation = "insert",
    before: tuple[dict[str, str], ...] = (),
    policy: Policy = STANDARD,
    known: Known | None = None,
    **fields: Any,
) -> tuple[str, ...]:
    return parent_keys(
        policy,
        object=object,
        operation=operation,
        target=parents,
        confirmed=before,
        fields=fields,
        known=known or Known(),
    )


CAMPAIGN, LEAD = parent("Campaign", "Campaign", "spring"), parent("Lead", "Lead", "ada")
WHO, WHAT = parent("Who", "Contact", "c-1"), parent("What", "Opportunity", "o-1")
HOLDING = parent("Parent", "Account", "holding")
TEAM = parent("User", "User", "u-1")
VISIT_OF, VISIT = parent("Account__r", "Account", "acme"), parent("Visit__r", "Visit__c", "v-1")
CONTACT_OF, ITEM_CAMPAIGN = parent("Contact__r", "Contact", "c-1"), parent("Campaign__r", "Campaign", "spring")
OPEN = {"status": "Not Started", "due_on": "2026-12-01"}

# (object, its parents, what is locked by an insert, an update that keeps the parents, a delete)
TABLE = [
    ("Lead", [], [], [], []),
    ("Account", [HOLDING], ["Account:holding"], [], []),
    ("Campaign", [parent("Parent", "Campaign", "year")], ["Campaign:year"], [], []),
    ("Contact", [ACME], ["Account:acme"], ["Account:acme"], ["Account:acme"]),
    ("Opportunity", [ACME, CAMPAIGN], ["Account:acme", "Campaign:spring"], ["Account:acme"], ["Account:acme"]),
    ("CampaignMember", [CAMPAIGN, LEAD], ["Campaign:spring", "Lead:ada"], ["Campaign:spring"], ["Campaign:spring"]),
    ("Task", [WHO, WHAT], ["Contact:c-1", "Opportunity:o-1"], ["Contact:c-1", "Opportunity:o-1"], None),
    ("AccountTeamMember", [ACME, TEAM], ["Account:acme"], [], ["Account:acme"]),
    ("Visit__c", [VISIT_OF, CONTACT_OF], ["Account:acme"], ["Account:acme"], ["Account:acme"]),
    ("Visit_Item__c", [VISIT, ITEM_CAMPAIGN], ["Campaign:spring", "Visit__c:v-1"], ["Visit__c:v-1"], ["Visit__c:v-1"]),
    ("Nobody_Knows__c", [ACME], ["Account:acme"], ["Account:acme"], ["Account:acme"]),
    ("Contact", [parent("Reports_To__r", "Contact", "b")], ["Contact:b"], ["Contact:b"], ["Contact:b"]),
]


@pytest.mark.parametrize(("object", "parents", "insert", "update", "delete"), TABLE)
def test_the_policy_is_this_table(
    object: str, parents: list[dict[str, str]], insert: list[str], update: list[str], delete: list[str] | None
) -> None:
    before = tuple(parents)
    assert keys(object, *parents, policy=CUSTOM, **OPEN) == tuple(insert)
    assert keys(object, *parents, policy=CUSTOM, operation="update", before=before) == tuple(update)
    removed = keys(object, policy=CUSTOM, operation="delete", before=before)
    assert removed == tuple(update if delete is None else delete)


@pytest.mark.parametrize(
    ("fields", "locked"),
    [
        (OPEN, True),
        ({}, True),  # nobody knows what the org's defaults are
        ({**OPEN, "status": "Completed"}, False),
        ({**OPEN, "due_on": None}, False),
        ({"ActivityDate": None}, False),
    ],
)
def test_a_task_that_is_done_or_has_no_date_locks_nobody_when_it_is_made(fields: dict[str, Any], locked: bool) -> None:
    assert (keys("Task", WHO, **fields) != ()) is locked
    assert keys("Task", WHO, operation="update", before=(WHO,), **fields) != ()


def test_a_task_locks_the_account_of_its_contact_too() -> None:
    known = Known(family={"Contact:c-1": [ACME]})
    assert keys("Task", WHO, known=known, **OPEN) == ("Account:acme", "Contact:c-1")


def test_a_roll_up_locks_the_grandparent_and_what_is_above_it() -> None:
    rolled = declared(
        {"Visit__c.Account__r": "roll-up", "Visit_Item__c.Visit__r": "roll-up", "Account.Group__r": "lookup"}
    )
    known = Known(
        family={"Visit__c:v-1": [VISIT_OF, CONTACT_OF], "Account:acme": [parent("Group__r", "Group__c", "g-1")]}
    )
    assert keys("Visit_Item__c", VISIT, policy=rolled, known=known) == ("Account:acme", "Group__c:g-1", "Visit__c:v-1")
    assert keys("Visit_Item__c", VISIT, policy=CUSTOM, known=known) == ("Account:acme", "Visit__c:v-1")
    assert keys("Visit_Item__c", VISIT, policy=CUSTOM) == ("Visit__c:v-1",)


def test_a_roll_up_that_leads_back_to_itself_ends() -> None:
    circle = declared({"A__c.A__r": "roll-up"})
    known = Known(family={"A__c:1": [parent("A__r", "A__c", "2")], "A__c:2": [parent("A__r", "A__c", "1")]})
    assert keys("A__c", parent("A__r", "A__c", "1"), policy=circle, known=known) == ("A__c:1", "A__c:2")


def test_an_account_that_changes_its_owner_takes_the_lock_on_groups_where_that_is_declared() -> None:
    assert keys("Account", operation="update", policy=CUSTOM, owner="u-1") == (GROUPS,)
    assert keys("Account", operation="insert", policy=CUSTOM, owner="u-1") == ()
    assert keys("Account", operation="update", policy=CUSTOM, name="Acme") == ()
    assert keys("Account", operation="update", owner="u-1") == ()


def test_a_relation_that_is_not_object_dot_relation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'Visit__c' should be Object\.Relation"):
        declared({"Visit__c": "lookup"})


@pytest.mark.parametrize(
    ("given", "meant"),
    [("Visit__c.Account__c", "Visit__c.Account__r"), ("Opportunity.AccountId", "Opportunity.Account")],
)
def test_the_field_of_a_relation_is_refused_with_what_to_write(given: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"'{given}' names the field; write the relation, {meant}."):
        declared({given: "lookup"})


def test_such_a_relation_is_found_by_the_system_check(settings: Any) -> None:
    assert the_relations_have_readable_names(None) == []
    settings.CRM_RELATIONS = {"Visit__c": "lookup"}
    (error,) = the_relations_have_readable_names(None)
    assert error.id == "crmsync.E010" and "Visit__c.Account__r" in error.msg


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
    assert keys("Contact", operation="update", before=(ACME,)) == ("Account:acme",)


def test_a_contact_that_moves_locks_both_accounts() -> None:
    assert keys("Contact", OTHER, operation="update", before=(ACME,)) == ("Account:acme", "Account:other")


def test_a_restricted_lookup_that_changes_locks_both_parents() -> None:
    year = parent("Parent", "Campaign", "year")
    assert keys("Campaign", year, operation="update", before=(parent("Parent", "Campaign", "old"),)) == (
        "Campaign:old",
        "Campaign:year",
    )
