"""Facts that no source settles are settings; here each is tried in more than one value."""

from collections.abc import Callable
from pathlib import Path

import pytest
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceError

from tests.crmsync.sandbox.conftest import Org, collect, new_account, running_org

MakeAccount = Callable[[str], str]


@pytest.mark.parametrize("status", [400, 409])
@pytest.mark.parametrize("is_named", [True, False])
def test_a_lock_error_has_the_status_and_the_words_of_the_setting(hasty_org: Org, status: int, is_named: bool) -> None:
    sf = hasty_org.client()
    account = new_account(sf, "a-1")
    hasty_org.admin("POST", "settings", {"lock_error_status": status, "lock_error_names_record": is_named})
    hasty_org.admin("POST", "locks", {"ids": [account]})
    with pytest.raises(SalesforceError) as refused:
        sf.Contact.create({"LastName": "K", "AccountId": account})
    assert (refused.value.status, refused.value.content[0]["errorCode"]) == (status, "UNABLE_TO_LOCK_ROW")
    named = f" or 1 records: {account}" if is_named else ""
    assert refused.value.content[0]["message"] == f"unable to obtain exclusive access to this record{named}"


@pytest.mark.parametrize("moment", ["always", "if_changed", "never"])
def test_a_relation_locks_when_the_setting_says_so(
    org: Org, sf: Salesforce, make_account: MakeAccount, moment: str
) -> None:
    old, new = make_account("a-1"), make_account("a-2")
    contact = sf.Contact.create({"LastName": "K", "AccountId": old})["id"]
    org.admin("POST", "settings", {"relation_locks": {"Contact.AccountId": {"update": moment}}})
    sf.Contact.update(contact, {"Title": "T"})
    assert org.journal()[-1]["locks"] == sorted([contact, *([old] if moment == "always" else [])])
    sf.Contact.update(contact, {"AccountId": new})
    assert org.journal()[-1]["locks"] == sorted([contact, *([old, new] if moment != "never" else [])])


@pytest.mark.parametrize("locks", [True, False])
def test_a_change_of_owner_takes_the_group_lock_where_the_setting_says_so(
    org: Org, sf: Salesforce, locks: bool
) -> None:
    ada = org.admin("GET", "records/User")["records"][1]["Id"]
    account = sf.Account.create({"Name": "A"})["id"]
    org.admin("POST", "settings", {"owner_change_locks_groups": locks})
    sf.Account.update(account, {"OwnerId": ada})
    assert org.journal()[-1]["locks"] == sorted([account, *(["GROUP"] if locks else [])])
    sf.Account.update(account, {"Phone": "1"})
    assert org.journal()[-1]["locks"] == [account]


@pytest.mark.parametrize("revives", [True, False])
def test_an_upsert_of_a_deleted_record_makes_a_new_one_or_is_refused(org: Org, sf: Salesforce, revives: bool) -> None:
    sf.Lead.upsert("Rota_Id__c/l-1", {"LastName": "L", "Company": "C"})
    sf.Lead.delete("Rota_Id__c/l-1")
    org.admin("POST", "settings", {"upsert_revives_deleted": revives})
    if revives:
        assert sf.Lead.upsert("Rota_Id__c/l-1", {"LastName": "L", "Company": "C"}) == 201
    else:
        with pytest.raises(SalesforceError) as refused:
            sf.Lead.upsert("Rota_Id__c/l-1", {"LastName": "L", "Company": "C"})
        assert refused.value.content[0]["errorCode"] == "ENTITY_IS_DELETED"


@pytest.mark.parametrize(("passes", "least"), [(1, 0.1), (3, 0.2)])
def test_a_partial_failure_makes_the_triggers_run_again_where_the_setting_says_so(
    org: Org, sf: Salesforce, passes: int, least: float
) -> None:
    account = sf.Account.create({"Name": "A"})["id"]
    org.admin("POST", "settings", {"partial_save_passes": passes})
    org.admin("POST", "automation", {"kind": "trigger", "object": "Account", "name": "Slow", "ms": 100})
    rows = [{"attributes": {"type": "Account"}, "id": account, "Phone": "1"}, {"attributes": {"type": "Account"}}]
    rows[1] |= {"id": account, "Rating": "none"}
    assert [each["success"] for each in collect(sf, "sobjects", rows)] == [True, False]
    held = org.journal()[-1]["held_ms"] / 1000
    assert held >= least and (passes > 1 or held < 2 * least)


def test_costs_vary_by_a_seed(tmp_path: Path) -> None:
    held = []
    for seed in ("1", "1", "2"):
        options = ("--noise", "1.5", "--seed", seed, "--transaction-ms", "60", "--parent-ms", "20")
        with running_org(tmp_path / str(len(held)), *options) as org:
            account = new_account(org.client(), "a")
            org.client().Account.update(account, {"Phone": "1"})
            held.append(org.journal()[-1]["held_ms"])
    assert abs(held[0] - held[1]) < abs(held[0] - held[2])


def test_settings_are_read_changed_and_go_back_with_a_reset(org: Org) -> None:
    before = org.admin("GET", "settings")["settings"]
    assert org.admin("POST", "settings", {"bulk2_workers": 7})["settings"] == {**before, "bulk2_workers": 7}
    for wrong in ({"colour": 1}, {"bulk2_workers": "many"}, {"bulk2_workers": 1.5}, {"upsert_revives_deleted": 1}):
        assert "error" in org.admin("POST", "settings", wrong, status=400)
    assert "error" in org.admin("POST", "settings", {"relation_locks": {"a": {"update": "maybe"}}}, status=400)
    org.admin("POST", "reset")
    assert org.admin("GET", "settings")["settings"] == before


def test_an_org_starts_with_settings_and_a_schema_of_its_own(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    field = '{"type": "string", "length": 80, "required": true}'
    user = f'"Username": {field}, "LastName": {field}, "Email": {field}, "FirstName": {field}, "Title": {field}'
    more = '"IsActive": {"type": "boolean"}'
    system = '"Id": {"type": "id"}, "IsDeleted": {"type": "boolean"}'
    stamps = ('"CreatedDate"', '"LastModifiedDate"', '"SystemModstamp"')
    system = ", ".join([system, *(f'{each}: {{"type": "datetime"}}' for each in stamps)])
    people = ", ".join(
        f'"{each}": {{"type": "reference", "to": ["User"]}}' for each in ("CreatedById", "LastModifiedById")
    )
    built_in = '[{"kind": "trigger", "object": "User", "name": "T"}]'
    schema.write_text(
        f'{{"system": {{{system}, {people}}}, "automation": {built_in}, "objects": {{"User": '
        f'{{"prefix": "005", "label": "User", "plural": "Users", "fields": {{{user}, {more}}}}}}}}}'
    )
    with running_org(tmp_path / "org", "--schema", str(schema), "--set", "bulk2_workers=9") as org:
        assert org.admin("GET", "settings")["settings"]["bulk2_workers"] == 9
        assert [each["name"] for each in org.client().describe()["sobjects"]] == ["User"]
        assert [each["name"] for each in org.admin("GET", "automation")["automation"]] == ["T"]
