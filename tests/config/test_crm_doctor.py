"""The doctor as a command: what an operator types before pointing Rota at an org."""

import json
from typing import Any

import pytest
from django.core.management import call_command

from crmsync.gateway import connect
from tests.crmsync.conftest import org, org_process  # noqa: F401 - fixtures
from tests.crmsync.sandbox_org import SandboxOrg
from tests.make import make_rep
from tests.outreach.make import make_campaign

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _org(org: Any) -> None:  # noqa: F811
    """Every test here has an org."""


def test_it_answers_json_and_exits_0_when_nothing_stands_in_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    user = connect().query("SELECT Id FROM User WHERE IsActive = true ORDER BY Id LIMIT 1")[0]["Id"]
    make_rep(crm_user_id=user)
    call_command("crm_doctor", "--json")
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert answer["ok"] and answer["findings"] and "problem" not in answer


def test_it_looks_at_tasks_once_a_campaign_logs_its_mails(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("crm_doctor")
    assert "Task" not in capsys.readouterr().out
    make_campaign(logs_activities=True)
    call_command("crm_doctor")
    assert "Task: Rota_Id__c: Rota_Id__c is there" in capsys.readouterr().out


def test_a_problem_is_told_with_its_fix_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    rep = make_rep(crm_user_id="")
    with pytest.raises(SystemExit) as ended:
        call_command("crm_doctor")
    assert ended.value.code == 1
    out = capsys.readouterr().out
    assert f"PROBLEM  reps: {rep.name} has no CRM user." in out
    assert "Give the user the rep's e-mail address" in out
    assert out.rstrip().endswith("1 problem to fix.")


def test_what_could_not_be_asked_is_not_ok_and_exits_3(
    org: SandboxOrg,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_rep(crm_user_id=connect().query("SELECT Id FROM User WHERE IsActive = true LIMIT 1")[0]["Id"])
    org.fault("unavailable", path="/limits")
    with pytest.raises(SystemExit) as ended:
        call_command("crm_doctor", "--json")
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (ended.value.code, answer["ok"], answer["unknown"]) == (3, False, 1)
    org.fault("unavailable", path="/limits")
    with pytest.raises(SystemExit):
        call_command("crm_doctor")
    assert "1 question not answered" in capsys.readouterr().out.splitlines()[-1]
