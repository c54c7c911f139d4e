"""The doctor, against a real (sandbox) org over HTTP."""

from typing import Any

import pytest

from crmsync.doctor.contacts import Company, host_of
from crmsync.doctor.examine import Person, examine
from crmsync.doctor.findings import Verdict
from crmsync.gateway import connect
from crmsync.models import AccountLeads, Batch
from tests.crmsync.push.test_cancelling import batch_of
from tests.crmsync.sandbox_org import SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)


def found(*people: Person) -> list[tuple[str, str, str]]:
    return [(each.verdict.value, each.step, each.says) for each in examine(people=people)]


def bad(*people: Person) -> list[str]:
    return [f"{verdict} {step}" for verdict, step, _ in found(*people) if verdict != Verdict.OK]


def user_id() -> str:
    return str(connect().query("SELECT Id FROM User WHERE IsActive = true ORDER BY Id LIMIT 1")[0]["Id"])


def test_a_well_org_has_nothing_to_fix(org: SandboxOrg) -> None:
    assert bad(Person("Ann", user_id())) == []


def test_without_settings_or_a_login_it_says_so_and_stops(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_CLIENT_SECRET = "not the one"
    assert bad() == ["problem login"]
    settings.CRM_URL = ""
    assert bad() == ["problem settings"]


def test_a_session_that_every_call_refuses_is_a_problem_and_the_last_question(org: SandboxOrg) -> None:
    org.fault("unauthorized", forever=True)
    assert bad() == ["problem session"]
    assert [step for _, step, _ in found()] == ["settings", "login", "session"]


def test_a_version_the_org_does_not_speak_is_a_problem(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_API_VERSION = "20.0"
    assert "problem API version" in bad()


def test_rules_that_would_refuse_records_are_warned_about(org: SandboxOrg) -> None:
    org.ask("POST", "automation", {"kind": "duplicate_rule", "object": "Lead", "name": "Same_Email"})
    rule = {
        "kind": "validation_rule",
        "object": "Lead",
        "name": "No_X",
        "field": "Company",
        "value": "X",
        "message": "no",
    }
    org.ask("POST", "automation", rule)
    assert bad() == ["warning duplicate rules", "warning validation rules"]
    assert "Same_Email (Lead)" in next(says for _, step, says in found() if step == "duplicate rules")


def test_an_assignment_rule_is_named_and_does_no_harm(org: SandboxOrg) -> None:
    org.ask(
        "POST", "automation", {"kind": "assignment_rule", "object": "Lead", "name": "Everything", "owner": user_id()}
    )
    assert bad() == []
    assert any("Everything (Lead)" in says for _, _, says in found())


def test_tasks_are_examined_where_mails_are_logged_as_tasks(org: SandboxOrg, settings: Any) -> None:
    steps = {each.step for each in examine(people=[], activities=True) if each.step.startswith("Task")}
    assert steps == {"Task: access", "Task: Rota_Id__c", "Task: fields", "Task: required"}
    assert not {each.step for each in examine(people=[]) if each.step.startswith("Task")}
    settings.CRM_EXTERNAL_ID_FIELD = "Other_Id__c"
    (missing,) = [each for each in examine(people=[], activities=True) if each.step == "Task: Other_Id__c"]
    assert missing.verdict == "problem" and "to Activity, which Task and Event share" in missing.fix


def test_reps_without_an_active_user_of_their_own_are_named(org: SandboxOrg) -> None:
    mine = user_id()
    people = [Person("Ann", mine), Person("Ben", mine[:15]), Person("Cid", ""), Person("Dee", "005000000000001AAA")]
    says = {text for verdict, step, text in found(*people) if step == "reps"}
    assert {text.split(" ")[0] for text in says} == {"Cid", "Dee's", "Ann,"}


def test_where_leads_of_accounts_are_contacts_the_accounts_are_asked_about(org: SandboxOrg) -> None:
    known = str(connect().call("POST", "sobjects/Account", {"Name": "Acme"}, {})["id"])
    companies = [Company("Acme", known[:15]), Company("Blue", "001000000000999AAA"), Company("Coral", "")]
    assert not [each for each in examine(people=(), companies=companies) if each.step == "leads of accounts"]
    AccountLeads.objects.create(written_as="Contact")
    says = [
        (each.verdict.value, each.says.split(",")[0])
        for each in examine(people=(), companies=companies)
        if each.step == "leads of accounts"
    ]
    assert says == [
        ("ok", "New leads of known accounts are written as contacts under them."),
        ("warning", "Blue's account 001000000000999AAA is not in the org"),
        ("ok", "1 of 3 accounts have no id of the org: their leads stay leads."),
    ]


def test_accounts_are_examined_as_the_others_once_a_file_has_written_them(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_EXTERNAL_ID_FIELD = "Other_Id__c"
    assert "problem Account: Other_Id__c" not in bad()
    batch_of("one")
    Batch.objects.update(columns=["Other_Id__c", "Account.Other_Id__c"])
    assert "problem Account: Other_Id__c" in bad()


def test_a_question_that_the_org_does_not_answer_is_unknown_and_the_others_go_on(org: SandboxOrg) -> None:
    org.fault("unavailable", times=1, path="/limits")
    verdicts = [f"{verdict} {step}" for verdict, step, _ in found(Person("Ann", user_id()))]
    assert "unknown limits" in verdicts
    assert "ok reps" in verdicts


@pytest.mark.parametrize(
    ("website", "host"),
    [
        ("https://www.Acme.example/en", "acme.example"),
        ("acme.example", "acme.example"),
        ("http://acme.example:8080", "acme.example"),
        (" WWW.acme.example ", "acme.example"),
        ("eu.acme.example", "eu.acme.example"),
        ("http://[", ""),
        ("", ""),
    ],
)
def test_the_domain_of_a_website_however_it_is_written(website: str, host: str) -> None:
    assert host_of(website) == host
