"""What administrators build in: roll-ups, triggers with their locks and limits, rules that refuse or reassign."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from simple_salesforce import Salesforce
from simple_salesforce.exceptions import SalesforceError

from tests.crmsync.sandbox.bulk import Ingest, table
from tests.crmsync.sandbox.conftest import Org, collect, new_account

MakeAccount = Callable[[str], str]
DEFINITION = "a0r5R0000000001QAA"  # a row of an object that the org does not show


@pytest.fixture
def account(org: Org, make_account: MakeAccount) -> str:
    return make_account("a-1")


def trigger(org: Org, object: str, **more: Any) -> None:
    org.admin("POST", "automation", {"kind": "trigger", "object": object, "name": "dlrs_Count", **more})


def visits(sf: Salesforce, account: str, count: int = 1, **more: Any) -> list[Any]:
    rows = [{"attributes": {"type": "Visit__c"}, "Account__c": account, **more} for _ in range(count)]
    results: list[Any] = collect(sf, "sobjects", rows, method="POST")
    return results


def items(sf: Salesforce, visit: str, *minutes: int | None) -> list[Any]:
    kind = {"attributes": {"type": "Visit_Item__c"}, "Visit__c": visit}
    results: list[Any] = collect(sf, "sobjects", [{**kind, "Minutes__c": each} for each in minutes], method="POST")
    return results


def refusals(call: Callable[[], Any]) -> Iterator[tuple[str, str]]:
    with pytest.raises(SalesforceError) as refused:
        call()
    for error in refused.value.content:
        yield error["errorCode"], error["message"]


def test_parent_and_grandparent_roll_up_what_their_children_are_worth(sf: Salesforce, account: str) -> None:
    first, second = (each["id"] for each in visits(sf, account, 2))
    ten, five, _ = (each["id"] for each in items(sf, first, 10, 5, None))
    assert (sf.Visit__c.get(first)["Minutes__c"], sf.Account.get(account)["Visit_Minutes__c"]) == (15, 15)
    sf.Visit_Item__c.update(ten, {"Visit__c": second, "Minutes__c": 20})
    sf.Visit_Item__c.delete(five)
    assert [sf.Visit__c.get(each)["Minutes__c"] for each in (first, second)] == [0, 20]
    assert sf.Account.get(account)["Visit_Minutes__c"] == 20
    sf.Visit__c.delete(second)
    assert sf.Account.get(account)["Visit_Minutes__c"] == 0
    for code, _message in refusals(lambda: sf.Account.update(account, {"Visit_Minutes__c": 1})):
        assert code == "INVALID_FIELD_FOR_INSERT_UPDATE"


def test_a_roll_up_counts_only_what_was_saved(sf: Salesforce, account: str) -> None:
    campaign = sf.Campaign.create({"Name": "C"})["id"]
    lead = sf.Lead.create({"LastName": "L", "Company": "C"})["id"]
    kind = {"attributes": {"type": "CampaignMember"}, "CampaignId": campaign}
    rows = [{**kind, "LeadId": lead}, {**kind, "LeadId": "00Q5R0000000zzz"}, {**kind}]
    collect(sf, "sobjects", rows, method="POST")
    assert (sf.Campaign.get(campaign)["NumberOfLeads"], sf.Campaign.get(campaign)["NumberOfContacts"]) == (1, 0)
    collect(sf, "sobjects", rows, method="POST", allOrNone=True)
    assert sf.Campaign.get(campaign)["NumberOfLeads"] == 1


def test_a_roll_up_locks_parent_and_grandparent_only_when_the_sum_changes(
    org: Org, sf: Salesforce, account: str
) -> None:
    org.admin("POST", "settings", {"detail_update_locks_master": False})
    visit = visits(sf, account)[0]["id"]
    item = items(sf, visit, 10)[0]["id"]
    assert org.journal()[-1]["locks"] == sorted([account, visit])
    sf.Visit_Item__c.update(item, {"Name": "n"})
    assert org.journal()[-1]["locks"] == [item]
    sf.Visit_Item__c.update(item, {"Minutes__c": 11})
    assert org.journal()[-1]["locks"] == sorted([account, visit, item])
    org.admin("POST", "settings", {"detail_update_locks_master": True})
    sf.Visit_Item__c.update(item, {"Name": "m"})
    assert org.journal()[-1]["locks"] == sorted([visit, item])


def test_concurrent_children_never_lose_a_sum(org: Org, sf: Salesforce, account: str) -> None:
    visit = visits(sf, account)[0]["id"]
    jobs = [Ingest(sf, "Visit_Item__c", "insert") for _ in range(3)]
    for job in jobs:
        job.put(table("Visit__c,Minutes__c", *[f"{visit},1"] * 300))
        job.become("UploadComplete")
    for job in jobs:
        assert job.until("JobComplete")["numberRecordsFailed"] == 0
    assert sf.Account.get(account)["Visit_Minutes__c"] == 900


def test_a_trigger_locks_a_row_of_its_own_and_wraps_its_lock_failure(hasty_org: Org) -> None:
    sf = hasty_org.client()
    account = new_account(sf, "a-1")
    trigger(hasty_org, "Contact", locks=[DEFINITION])
    made = sf.Contact.create({"LastName": "K", "AccountId": account})
    assert hasty_org.journal()[-1]["locks"] == sorted([DEFINITION, account])
    hasty_org.admin("POST", "locks", {"ids": [DEFINITION]})
    ((code, message),) = refusals(lambda: sf.Contact.update(made["id"], {"Title": "T"}))
    assert code == "CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY"
    assert message.startswith("dlrs_Count: execution of AfterUpdate\n\ncaused by: System.DmlException: Update failed.")
    assert (
        "first error: UNABLE_TO_LOCK_ROW, unable to obtain exclusive access to this record or 1 records: a0r" in message
    )


def test_a_trigger_makes_its_rows_take_longer(org: Org, sf: Salesforce) -> None:
    trigger(org, "Lead", ms=40)
    sf.Lead.create({"LastName": "L", "Company": "C"})
    lead = org.journal()[-1]
    assert lead["number"] and lead["committed_at"] > lead["started_at"]
    seconds = [entry["committed_at"][17:23] for entry in (lead,)] + [lead["started_at"][17:23]]
    assert (float(seconds[0]) - float(seconds[1])) % 60 >= 0.04


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        ({"soql": 1}, "Too many SOQL queries: 101"),
        ({"cpu_ms": 60}, "Apex CPU time limit exceeded"),
        ({"futures": 1}, "Too many future calls: 51"),
        ({"query_rows": 450}, "Too many query rows: 50001"),
    ],
)
def test_the_governor_refuses_every_row_of_what_is_too_big(
    org: Org, sf: Salesforce, cost: dict[str, float], words: str
) -> None:
    trigger(org, "Lead", events=["insert"], **cost)
    rows = [{"attributes": {"type": "Lead"}, "LastName": f"L{number}", "Company": "C"} for number in range(200)]
    results = collect(sf, "sobjects", rows, method="POST")
    assert {each["errors"][0]["statusCode"] for each in results} == {"CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY"}
    assert results[0]["errors"][0]["message"] == f"dlrs_Count: System.LimitException: {words}"
    assert org.admin("GET", "records/Lead")["records"] == []
    assert all(each["success"] for each in collect(sf, "sobjects", rows[:50], method="POST"))


def test_a_flow_and_a_rule_refuse_single_rows(org: Org, sf: Salesforce) -> None:
    trigger(org, "Lead", refuses_field="City", refuses_value="X", message="No X", is_flow=True)
    rule = {"kind": "validation_rule", "object": "Lead", "name": "Newest", "field": "Rota_Version__c", "lower": True}
    org.admin("POST", "automation", {**rule, "message": "A newer version is here"})
    lead = {"LastName": "L", "Company": "C", "Rota_Version__c": 2}
    ((code, message),) = refusals(lambda: sf.Lead.create({**lead, "City": "X"}))
    assert code == "CANNOT_INSERT_UPDATE_ACTIVATE_ENTITY" and "caused by: No X" in message
    made = sf.Lead.create(lead)["id"]
    ((code, message),) = refusals(lambda: sf.Lead.update(made, {"Rota_Version__c": 1}))
    assert (code, message) == ("FIELD_CUSTOM_VALIDATION_EXCEPTION", "A newer version is here")
    org.admin("DELETE", "automation")
    assert sf.Lead.update(made, {"Rota_Version__c": 1}) == 204


def test_an_assignment_rule_takes_the_owner_away_unless_the_caller_forbids_it(org: Org, sf: Salesforce) -> None:
    ada, ben = (each["Id"] for each in org.admin("GET", "records/User")["records"][1:3])
    rule = {"kind": "assignment_rule", "object": "Lead", "name": "Web", "owner": ben, "id": "01Q5R0000000007"}
    org.admin("POST", "automation", rule)
    lead = {"LastName": "L", "Company": "C", "OwnerId": ada}
    given = [sf.Lead.create(lead, headers=headers)["id"] for headers in ({}, {"Sforce-Auto-Assign": "FALSE"})]
    assert [sf.Lead.get(each)["OwnerId"] for each in given] == [ben, ada]
    for more, owner in (({}, ada), ({"assignmentRuleId": "01Q5R0000000007"}, ben)):
        job = Ingest(sf, "Lead", "insert", **more)
        job.run(table("LastName,Company,OwnerId", f"L,C,{ada}"))
        assert sf.Lead.get(job.rows("successfulResults")[0]["sf__Id"])["OwnerId"] == owner


def test_a_duplicate_rule_refuses_unless_the_caller_allows_it(org: Org, sf: Salesforce) -> None:
    org.admin("POST", "automation", {"kind": "duplicate_rule", "object": "Lead", "name": "Same_Address"})
    lead = {"LastName": "L", "Company": "C", "Email": "a@b.cd"}
    sf.Lead.create(lead)
    ((code, _),) = refusals(lambda: sf.Lead.create({**lead, "Email": "A@B.cd"}))
    assert code == "DUPLICATES_DETECTED"
    assert sf.Lead.create(lead, headers={"Sforce-Duplicate-Rule-Header": "allowSave=true"})["success"]


def test_the_tooling_api_says_what_is_built_in(org: Org, sf: Salesforce) -> None:
    trigger(org, "Contact", events=["insert", "update"])
    trigger(org, "Lead", is_flow=True, events=["insert", "update"])
    rule = {"kind": "validation_rule", "object": "Lead", "name": "N", "field": "City", "message": "m"}
    org.admin("POST", "automation", rule)
    org.admin("POST", "automation", {"kind": "duplicate_rule", "object": "Lead", "name": "Same_Address"})

    def asked(text: str) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = sf.toolingexecute("query/", params={"q": text})["records"]
        return records

    (found,) = asked(
        "SELECT Id, Name, UsageAfterDelete, UsageAfterInsert FROM ApexTrigger WHERE TableEnumOrId = 'contact'"
    )
    assert (found["Name"], found["UsageAfterInsert"], found["UsageAfterDelete"]) == ("dlrs_Count", True, False)
    assert asked("SELECT Id FROM ApexTrigger WHERE TableEnumOrId = 'Lead'") == []
    query = "SELECT ApiName, RecordTriggerType FROM FlowDefinitionView WHERE IsActive = TRUE"
    (flow,) = sf.query(f"{query} AND TriggerObjectOrEvent.QualifiedApiName IN ('Lead')")["records"]
    assert (flow["ApiName"], flow["RecordTriggerType"]) == ("dlrs_Count", "CreateAndUpdate")
    (found,) = asked("SELECT ValidationName, EntityDefinition.QualifiedApiName FROM ValidationRule WHERE Active = TRUE")
    assert found["EntityDefinition"]["QualifiedApiName"] == "Lead"
    (duplicate,) = sf.query("SELECT DeveloperName FROM DuplicateRule WHERE SobjectType = 'Lead'")["records"]
    assert duplicate["DeveloperName"] == "Same_Address"
    assert sf.query("SELECT COUNT() FROM AssignmentRule")["totalSize"] == 0
    summed = {
        each["SummaryForeignKey"] for each in asked("SELECT SummaryForeignKey FROM CustomField ORDER BY Id LIMIT 9")
    }
    assert summed == {"CampaignMember.CampaignId", "Visit__c.Account__c", "Visit_Item__c.Visit__c"}
    for text, code in (
        ("SELECT Id FROM Nothing", "INVALID_TYPE"),
        ("SELECT Nothing FROM ApexTrigger", "INVALID_FIELD"),
    ):
        assert [each for each, _ in refusals(lambda text=text: asked(text))] == [code]


def test_describe_tells_roll_ups_and_details(sf: Salesforce) -> None:
    fields = {field["name"]: field for field in sf.Visit__c.describe()["fields"]}
    assert (fields["Minutes__c"]["calculated"], fields["Minutes__c"]["updateable"]) == (True, False)
    assert fields["Account__c"]["cascadeDelete"] and not fields["Contact__c"]["cascadeDelete"]
    children = {each["childSObject"] for each in sf.Account.describe()["childRelationships"]}
    assert children >= {"Contact", "Opportunity", "AccountTeamMember", "Visit__c"}


def test_what_is_no_trigger_or_rule_is_refused(org: Org) -> None:
    for body in (
        {"kind": "spell", "object": "Lead"},
        {"kind": "trigger", "object": "Nothing", "name": "n"},
        {"kind": "trigger", "object": "Lead"},
        {"kind": "trigger", "object": "Lead", "name": "n", "ms": "long"},
        {"kind": "trigger", "object": "Lead", "name": "n", "events": ["upsert"]},
        {"kind": "trigger", "object": "Lead", "name": "n", "colour": "red"},
    ):
        assert "error" in org.admin("POST", "automation", body, status=400)
    assert org.admin("GET", "automation")["automation"] == []
