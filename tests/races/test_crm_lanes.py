"""Eight workers, two hundred contacts of five accounts: nobody may wait for a lock of our own in the org."""

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from crmsync.direct import Row, Target, write
from crmsync.flows.deliver import deliver
from crmsync.flows.reap import reap
from crmsync.gateway import connect
from crmsync.mapping import MAPPING, body
from crmsync.models import Attempt, Lane, OutboxMessage
from crmsync.moves.claim import claim_next
from tests.crmsync.rows import age_claims, drain, put, put_contacts
from tests.crmsync.sandbox_org import SandboxOrg
from tests.races.crowd import at_once

pytestmark = pytest.mark.django_db(transaction=True)

WORKERS = 8
ACCOUNTS = ("a", "b", "c", "d", "e")


def crowd(work: Callable[[int], Any]) -> None:
    answers = at_once(WORKERS, work)
    assert [answer for answer in answers if isinstance(answer, BaseException)] == []


@pytest.fixture
def contacts(org: SandboxOrg, settings: Any) -> list[OutboxMessage]:
    settings.CRM_TIMEOUT_S = 20  # eight workers share two processors here
    settings.CRM_LEASE_S = 40
    for account in ACCOUNTS:
        put(account, object="Account", name=account)
    drain()
    # As if they had failed before: chunks of at most 25 rows, so that one worker cannot take all in one.
    Lane.objects.filter(key__startswith="Account:").update(most_rows=25)
    by_account = [put_contacts(account, 40) for account in ACCOUNTS]
    return [message for several in zip(*by_account, strict=True) for message in several]


def our_waits(org: SandboxOrg) -> list[dict[str, Any]]:
    return [entry for entry in org.journal() if "Contact" in entry["objects"] and entry["waits"]]


def test_negative_control_workers_without_lanes_wait_for_each_other(
    org: SandboxOrg, contacts: list[OutboxMessage]
) -> None:
    """Exists to show that the org would see it. Each worker takes every eighth row, as a naive claim would."""

    def naive(number: int) -> None:
        mine = contacts[number::WORKERS]
        rows = [
            Row(
                message.record.external_id,
                body(
                    table=MAPPING["Contact"],
                    fields=message.fields,
                    parents=message.parents,
                    external_id_field=settings.CRM_EXTERNAL_ID_FIELD,
                    creating=True,
                ),
            )
            for message in mine
        ]
        write(connect(), Target("Contact", "upsert", "Rota_Id__c"), rows, headers={})

    crowd(naive)
    assert our_waits(org) != []


def test_eight_workers_deliver_each_row_once_and_never_wait_for_each_other(
    org: SandboxOrg, contacts: list[OutboxMessage]
) -> None:
    crowd(lambda number: deliver(budget_s=30, worker=f"w{number}"))
    assert len({entry["who"]["client"] for entry in org.journal()}) > 2  # more than one took part
    assert OutboxMessage.objects.filter(record__object="Contact").exclude(status="delivered").count() == 0
    assert our_waits(org) == []
    written = [name for entry in org.journal() if "Contact" in entry["objects"] for name in entry["written"]]
    records = {record["Id"]: record["Rota_Id__c"] for record in org.records("Contact")}
    assert sorted(records[name] for name in written if name in records) == sorted(
        message.record.external_id for message in contacts
    )
    assert Attempt.objects.filter(message__record__object="Contact").count() == len(contacts)


def test_eight_reapers_and_workers_at_once_lose_and_double_nothing(
    org: SandboxOrg, contacts: list[OutboxMessage]
) -> None:
    for number in range(5):
        assert claim_next(worker=f"dead{number}") is not None
    age_claims()
    reaped: list[int] = []

    def work(number: int) -> None:
        if number % 2:
            reaped.append(reap().claims)
        else:
            deliver(budget_s=20, worker=f"w{number}")

    crowd(work)
    drain(seconds=30)
    assert sum(reaped) >= 1
    assert len(org.records("Contact")) == len(contacts)
    assert OutboxMessage.objects.exclude(status="delivered").count() == 0


@pytest.mark.parametrize("priority", [0, 1])
def test_fifty_contacts_of_one_account_written_at_once_by_eight_workers_land_in_one_pass(
    org: SandboxOrg, settings: Any, priority: int
) -> None:
    settings.CRM_TIMEOUT_S = 20
    settings.CRM_LEASE_S = 41
    settings.CRM_ROADS = {"Contact": "collections"}
    put("acme", object="Account", name="Acme")
    drain()

    def work(number: int) -> None:
        for n in range(number, 50, WORKERS):
            put(f"c-{n}", object="Contact", account="acme", priority=priority, last_name=f"N{n}")
            deliver(budget_s=0.01, worker=f"w{number}")
        while OutboxMessage.objects.open().exists():
            deliver(budget_s=5, worker=f"w{number}")

    crowd(work)
    contacts = OutboxMessage.objects.filter(record__object="Contact")
    assert contacts.count() == 50 and contacts.exclude(status="delivered").count() == 0
    assert Attempt.objects.filter(message__in=contacts).count() == 50  # one pass: nobody was tried twice
    assert our_waits(org) == []
    assert len(org.records("Contact")) == 50
    assert sum("Contact" in entry["objects"] for entry in org.journal()) > 1  # they did not all go in one call
