"""A burst of leads of one account, by several workers: contacts under it, and nobody waits for a lock of our own."""

from typing import Any

import pytest

from crmsync.flows.deliver import deliver
from crmsync.flows.send import send
from crmsync.gateway import connect
from crmsync.models import AccountLeads, Attempt, OutboxMessage
from crmsync.moves import reading
from crmsync.moves.claim import Chunk, claim_next
from tests.crmsync.rows import put
from tests.crmsync.sandbox_org import SandboxOrg
from tests.crmsync.test_adopt import create
from tests.races.crowd import at_once

pytestmark = pytest.mark.django_db(transaction=True)
WORKERS, LEADS = 6, 30


@pytest.fixture
def account(org: SandboxOrg, settings: Any) -> str:
    settings.CRM_TIMEOUT_S = 20  # the workers share two processors here
    settings.CRM_LEASE_S = 41
    AccountLeads.objects.create(written_as="Contact")
    # What runs in the org when a contact is saved keeps its account locked for a while.
    org.ask("POST", "automation", {"kind": "trigger", "object": "Contact", "name": "Slow", "ms": 200})
    return create("Account")


def take_in(n: int, account: str) -> None:
    put(f"lead-{n}", email=f"p{n}@customer.example", last_name=f"N{n}", matched_account=account)


def burst(account: str) -> None:
    """Each worker takes in its share of the leads, one after the other, and delivers what it finds in between."""

    def work(number: int) -> None:
        for n in range(number, LEADS, WORKERS):
            take_in(n, account)
            deliver(budget_s=0.01, worker=f"w{number}")
        while OutboxMessage.objects.open().exists():
            deliver(budget_s=5, worker=f"w{number}")

    assert [answer for answer in at_once(WORKERS, work) if isinstance(answer, BaseException)] == []


def our_waits(org: SandboxOrg) -> list[dict[str, Any]]:
    return [entry for entry in org.journal() if "Contact" in entry["objects"] and entry["waits"]]


def test_negative_control_without_the_accounts_lane_they_wait_for_each_other(
    org: SandboxOrg, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exists to show that the org would see it: each worker holds some of the contacts, and all write at once."""
    monkeypatch.setattr(reading, "lock_keys_of", lambda kins, fields=None: [()] * len(kins))
    held: list[Chunk] = []
    for number in range(WORKERS):
        for n in range(number, LEADS, WORKERS):
            take_in(n, account)
        for kind in ("Lead", "Contact"):  # looked up as leads and given back, then claimed as contacts
            chunk = claim_next(worker=f"w{number}")
            assert chunk is not None and (chunk.object, len(chunk.rows)) == (kind, LEADS // WORKERS)
            if kind == "Lead":
                send(chunk=chunk, org=connect())
            else:
                held.append(chunk)
    at_once(WORKERS, lambda number: send(chunk=held[number], org=connect()))
    assert our_waits(org) != []


def test_thirty_leads_of_one_account_are_thirty_contacts_without_a_wait(org: SandboxOrg, account: str) -> None:
    burst(account)
    assert our_waits(org) == []
    found = org.records("Contact")
    assert {one["Rota_Id__c"] for one in found} == {f"lead-{n}" for n in range(LEADS)}
    assert len(found) == LEADS
    assert {one["AccountId"] for one in found} == {account}
    assert org.records("Lead") == []
    assert not OutboxMessage.objects.exclude(status="delivered").exists()
    assert Attempt.objects.count() == LEADS  # nobody was tried twice
    assert sum("Contact" in entry["objects"] for entry in org.journal()) > 1  # they did not all go in one call
