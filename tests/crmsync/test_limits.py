"""The org's calls of the day: mass updates stop first, then everything, and a later look starts them again."""

from typing import Any

import pytest

from crmsync.flows.deliver import deliver
from crmsync.gateway import connect
from crmsync.models import OrgState, OutboxMessage
from tests.crmsync.rows import drain, put, put_many, statuses
from tests.crmsync.sandbox_org import SandboxOrg

pytestmark = pytest.mark.django_db(transaction=True)


def used(org: SandboxOrg, share: float) -> None:
    """The org has so many calls a day that this share of them is used now."""
    gateway = connect()
    gateway.query("SELECT Id FROM Lead")
    assert gateway.usage is not None
    org.facts(daily_calls_most=int((gateway.usage[0] + 3) / share))


def test_mass_updates_stop_at_80_percent_and_interactive_messages_go_on(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_PAUSE_S = 60
    for _ in range(40):
        connect().query("SELECT Id FROM Lead")
    used(org, 0.85)
    put("first")
    deliver(budget_s=1)
    state = OrgState.objects.get()
    assert state.mass_paused_reason.startswith("Limit of the org:")
    assert state.paused_until is None
    mass, mine = put_many(["m"])[0], put("mine")
    deliver(budget_s=1)
    assert statuses([mass, mine]) == ["pending", "delivered"]
    org.facts(daily_calls_most=100_000)
    put("second")
    deliver(budget_s=1)
    assert OrgState.objects.get().mass_paused_until is None
    drain()
    assert statuses([mass]) == ["delivered"]


def test_everything_stops_at_95_percent_until_a_probe_finds_the_calls_back(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_PAUSE_S = 0.03
    for _ in range(60):
        connect().query("SELECT Id FROM Lead")
    used(org, 0.97)
    put("first")
    deliver(budget_s=1)
    second = put("second")
    state = OrgState.objects.get()
    assert state.paused_until is not None and "calls of the day are used" in state.paused_reason
    assert OutboxMessage.objects.get(pk=second.pk).attempts == 0
    org.facts(daily_calls_most=100_000)
    drain()
    assert statuses([second]) == ["delivered"]
    state = OrgState.objects.get()
    assert (state.paused_until, state.mass_paused_until) == (None, None)


def test_the_two_request_limits_are_two_things(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_PAUSE_S = 300
    message = put("one")
    org.fault("concurrent_limit")
    deliver(budget_s=0.01)
    state = OrgState.objects.get()
    assert state.paused_until is not None
    short = state.paused_until - message.created_at
    OrgState.objects.all().delete()
    org.fault("daily_limit")
    deliver(budget_s=0.01)
    state = OrgState.objects.get()
    assert state.paused_until is not None and state.paused_until - message.created_at > 100 * short
    assert "TotalRequests" in state.paused_reason


def test_full_storage_pauses_the_org_and_charges_nothing(org: SandboxOrg) -> None:
    message = put("one")
    org.fault("storage")
    deliver(budget_s=0.01)
    assert "STORAGE_LIMIT_EXCEEDED" in OrgState.objects.get().paused_reason
    drain()
    assert statuses([message]) == ["delivered"]
    assert OutboxMessage.objects.get(pk=message.pk).attempts == 1
