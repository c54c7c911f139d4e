"""Kinds of public reports that no other test shows, and that each kind has its test (log_map)."""

import ast
from pathlib import Path
from typing import Any

import pytest

from crmsync.errors import CallFailed
from crmsync.flows.deliver import deliver
from crmsync.gateway import connect
from crmsync.models import Attempt, OrgState
from tests.crmsync.log_map import LOG_MAP
from tests.crmsync.rows import again, drain, put, put_contacts, put_many, statuses
from tests.crmsync.sandbox_org import SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = "a0r5R0000000001QAA"  # a record that Rota has never heard of


def test_every_kind_of_report_has_its_test() -> None:
    for number, node in LOG_MAP.items():
        file, _, name = node.partition("::")
        functions = [each.name for each in ast.walk(ast.parse((ROOT / file).read_text())) if hasattr(each, "name")]
        assert name in functions, f"{number}: {node}"


def test_a_lock_on_a_record_we_never_heard_of_is_still_a_lock(org: SandboxOrg) -> None:
    put("acme", object="Account", name="Acme")
    drain()
    org.ask("POST", "automation", {"kind": "trigger", "object": "Contact", "name": "T", "locks": [DEFINITION]})
    hold = org.ask("POST", "locks", {"ids": [DEFINITION]})["id"]
    (message,) = put_contacts("acme", 1)
    deliver(budget_s=0.01)
    waiting = again(message)
    assert (waiting.status, waiting.failure_kind) == ("pending", "contention")
    assert "a0r" in waiting.failure_text
    org.let_go(hold)
    drain()
    assert again(message).status == "delivered"


@pytest.mark.parametrize("cost", [{"query_rows": 500}, {"futures": 1}, {"soql": 1}])
def test_a_governor_limit_halves_the_chunk_until_it_passes(org: SandboxOrg, cost: dict[str, int]) -> None:
    org.ask("POST", "automation", {"kind": "trigger", "object": "Contact", "name": "Heavy", **cost})
    messages = put_many([f"k{n:03}" for n in range(120)])
    drain(seconds=30)
    assert set(statuses(messages)) == {"delivered"}
    assert {again(message).attempts for message in messages} == {1}
    assert "governor" in set(Attempt.objects.values_list("outcome", flat=True))
    assert max(entry["rows"] for entry in org.journal()) == 120


def test_a_row_that_is_too_much_alone_dies_and_says_why(org: SandboxOrg) -> None:
    org.ask("POST", "automation", {"kind": "trigger", "object": "Contact", "name": "Heavy", "soql": 101})
    (message,) = put_many(["k"])
    drain()
    dead = again(message)
    assert (dead.status, dead.failure_kind) == ("dead", "governor")
    assert "Too many SOQL queries" in dead.failure_text


def test_a_row_that_somebody_holds_stays_pending_and_lands_when_he_lets_go(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_ATTEMPTS_MOST = 8
    put("one", email="old@x.example")
    drain()
    hold = org.hold("Lead", "one")
    message = put("one", email="new@x.example")
    deliver(budget_s=0.01)
    assert (again(message).status, again(message).attempts, again(message).failure_kind) == ("pending", 1, "contention")
    org.let_go(hold)
    drain()
    assert (again(message).status, again(message).attempts) == ("delivered", 2)
    assert [record["Email"] for record in org.records("Lead")] == ["new@x.example"]


def test_a_call_without_an_answer_is_not_sent_again_by_itself(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_TIMEOUT_S = 0.5
    connect().sign_in()
    org.fault("answer_late", seconds=1.5)
    with pytest.raises(CallFailed) as failed:
        connect().call("POST", "sobjects/Lead", {"LastName": "L", "Company": "C"}, {})
    assert failed.value.fault.code == "NO_ANSWER"
    assert len(org.journal()) == 1


def test_a_retired_api_version_pauses_the_org_and_says_so(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_API_VERSION = "20.0"
    message = put("one")
    deliver(budget_s=0.01)
    assert "UNSUPPORTED_API_VERSION" in OrgState.objects.get().paused_reason
    assert again(message).attempts == 0
    settings.CRM_API_VERSION = "59.0"
    drain()
    assert again(message).status == "delivered"
