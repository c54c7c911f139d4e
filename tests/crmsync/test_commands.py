"""The commands say what they did, in words and as JSON, and by their exit code."""

import json
from typing import Any

import pytest
from django.core.management import call_command

from crmsync import checks
from crmsync.models import OutboxMessage
from crmsync.moves.claim import claim_next
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


def test_times_that_do_not_fit_into_each_other_are_found_at_start(settings: Any) -> None:
    assert checks.the_lease_outlasts_the_call(None) == checks.the_task_outlasts_the_drain(None) == []
    settings.CRM_TIMEOUT_S = 59
    assert [error.id for error in checks.the_lease_outlasts_the_call(None)] == ["crmsync.E001"]
    assert [error.id for error in checks.the_task_outlasts_the_drain(None)] == ["crmsync.E002"]
    settings.CRM_URL = "http://acme.my.salesforce.com"
    assert [error.id for error in checks.the_org_can_be_called(None)] == ["crmsync.E003"]
