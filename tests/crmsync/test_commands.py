"""The commands say what they did, in words and as JSON, and by their exit code."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import ManagementUtility, call_command
from django.utils import timezone

from crmsync import checks
from crmsync.models import OrgState, OutboxMessage
from crmsync.moves.claim import claim_next
from crmsync.moves.interventions import stop_org
from tests.crmsync.rows import age_claims, put
from tests.crmsync.sandbox_org import SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, dict[str, Any]]:
    code: Any = 0
    try:
        call_command(*arguments, "--json")
    except SystemExit as ended:
        code = ended.code
    out = capsys.readouterr().out
    return code, json.loads(out.splitlines()[-1]) if out else {}


def test_a_drain_reports_its_counts(org: SandboxOrg, capsys: pytest.CaptureFixture[str]) -> None:
    put()
    assert run(capsys, "deliver_outbox", "--dry-run") == (0, {"due": 1})
    code, counts = run(capsys, "deliver_outbox")
    assert (code, counts["delivered"], counts["still_due"]) == (0, 1, 0)


def test_dead_messages_make_it_a_partial_success(org: SandboxOrg, capsys: pytest.CaptureFixture[str]) -> None:
    put(email="not an address")
    code, counts = run(capsys, "deliver_outbox")
    assert (code, counts["dead"]) == (3, 1)


def test_without_an_org_nothing_is_touched(capsys: pytest.CaptureFixture[str], settings: Any) -> None:
    settings.CRM_URL = ""
    put()
    assert run(capsys, "deliver_outbox") == (1, {})
    assert OutboxMessage.objects.pending().count() == 1


def test_the_reaper_is_a_plain_command(org: SandboxOrg, capsys: pytest.CaptureFixture[str]) -> None:
    put()
    claim_next(worker="dead")
    age_claims()
    assert run(capsys, "reap_crm", "--dry-run") == (0, {"claims": 1})
    code, counts = run(capsys, "reap_crm")
    assert (code, counts["claims"], counts["put_back"]) == (0, 1, 1)


@pytest.mark.parametrize(
    "words",
    [
        ("contention", "--days=-1"),
        ("contention", "--days=0"),
        ("contention", "--days=99999999"),
        ("deliver_outbox", "--seconds=-1"),
        ("deliver_outbox", "--seconds=nan"),
        ("deliver_outbox", "--seconds=inf"),
        ("sandbox_org", "--scale=-1"),
        ("sandbox_org", "--scale=nan"),
    ],
)
def test_numbers_that_mean_nothing_are_wrong_usage(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        ManagementUtility(["manage.py", *words]).execute()
    assert ended.value.code == 2
    assert "is not a" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("until", "says"),
    [("stop", "Stopped by ops on "), ("pause", "Paused until "), ("low", "Mass updates are paused until ")],
)
def test_a_drain_that_may_not_write_says_who_or_what_stopped_it(
    org: SandboxOrg, capsys: pytest.CaptureFixture[str], until: str, says: str
) -> None:
    put(priority=OutboxMessage.Priority.MASS)
    if until == "stop":
        stop_org(by="ops", reason="release week-end")
    else:
        column = "paused" if until == "pause" else "mass_paused"
        later = timezone.now() + timedelta(hours=1)
        OrgState.objects.create(**{f"{column}_until": later, f"{column}_reason": "release week-end"})
    code, counts = run(capsys, "deliver_outbox")
    assert (code, counts["still_due"]) == (3, 1)
    assert counts["not_writing"].startswith(says) and "release week-end" in counts["not_writing"]
    with pytest.raises(SystemExit):
        call_command("deliver_outbox")
    assert says in capsys.readouterr().err


def test_times_that_do_not_fit_into_each_other_are_found_at_start(settings: Any) -> None:
    assert checks.the_lease_outlasts_the_call(None) == checks.the_task_outlasts_the_drain(None) == []
    settings.CRM_TIMEOUT_S = 59
    assert [error.id for error in checks.the_lease_outlasts_the_call(None)] == ["crmsync.E001"]
    assert [error.id for error in checks.the_task_outlasts_the_drain(None)] == ["crmsync.E002"]
    settings.CRM_URL = "http://acme.my.salesforce.com"
    assert [error.id for error in checks.the_org_can_be_called(None)] == ["crmsync.E003"]
