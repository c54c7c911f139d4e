"""Claims race: whoever claims at the same time gets other messages, and never more than it asked for."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from outreach.models import Claim, Message, OutreachEvent, SendAttempt
from outreach.moves import job_lock
from outreach.moves.claims import CLAIM, claim_batch
from outreach.moves.reaper import reap
from tests.outreach.make import expire, hold, make_running

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run the work in so many threads that start together; return what they return, in no order."""
    barrier, results, faults = threading.Barrier(count), [], []

    def one(number: int) -> None:
        try:
            barrier.wait()
            results.append(work(number))
        except Exception as fault:
            faults.append(fault)
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return results


def test_negative_control_reading_first_and_marking_then_gives_one_message_to_several() -> None:
    campaign = make_running(leads=8)
    both_have_read = threading.Barrier(4)

    def naive(_: int) -> list[int]:
        due = Message.objects.due().filter(campaign=campaign).order_by("due_at", "id")
        ids = list(due.values_list("pk", flat=True)[:2])
        both_have_read.wait()
        Message.objects.filter(pk__in=ids).update(reason="")
        return ids

    taken = [message for ids in at_once(4, naive) for message in ids]
    assert len(taken) > len(set(taken))


def test_claims_taken_at_once_are_disjoint_and_complete_i2() -> None:
    campaign = make_running(leads=60)

    def claim_all(number: int) -> list[int]:
        mine: list[int] = []
        while held := claim_batch(campaign_id=campaign.pk, worker=f"w{number}", size=7, lease_s=60):
            assert len(held.messages) <= 7
            mine += held.messages
        return mine

    taken = [message for ids in at_once(6, claim_all) for message in ids]
    assert len(taken) == len(set(taken)) == 60


def test_a_claim_never_exceeds_its_limit_under_stale_statistics_and_nested_loops_i2() -> None:
    campaign = make_running(leads=5)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE outreach_message")
    more = make_running(leads=300)
    Message.objects.filter(campaign=more).update(campaign=campaign)
    with connection.cursor() as cursor:
        for road in ("hashjoin", "mergejoin", "material", "hashagg", "sort"):  # a subquery would be run again and again
            cursor.execute(f"SET enable_{road} = off")
    assert len(hold(campaign, size=5).messages) == 5
    assert Message.objects.filter(status="claimed").count() == 5


def test_the_claim_reads_the_partial_index_and_no_more_rows_than_it_takes_i16() -> None:
    campaign = make_running(leads=1_500)
    Message.objects.filter(pk__in=list(Message.objects.values_list("pk", flat=True)[:1_400])).update(
        status="cancelled", reason="a test"
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE outreach_message")
        values = {"campaign": campaign.pk, "worker": "w", "size": 10, "lease": 60}
        with transaction.atomic():
            cursor.execute(
                f"EXPLAIN (ANALYZE, FORMAT JSON) {CLAIM}", {**values, "token": "00000000-0000-4000-8000-000000000001"}
            )
            (plan,) = cursor.fetchone()
            transaction.set_rollback(True)
    scans = [node for node in nodes(plan[0]["Plan"]) if node.get("Index Name") == "message_due"]
    assert scans and max(node["Actual Rows"] for node in scans) <= 10


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """A plan's nodes, itself included."""
    return [plan, *(node for child in plan.get("Plans", ()) for node in nodes(child))]


def test_two_reapers_at_once_end_each_claim_once_i7() -> None:
    campaign = make_running(leads=20)
    for _ in range(10):
        hold(campaign, size=2)
    expire()
    assert sum(reaped.claims for reaped in at_once(4, lambda _: reap(most=3)) if reaped) <= 10
    while reap().claims:
        pass
    assert Claim.objects.filter(end_reason="expired").count() == 10
    assert OutreachEvent.objects.filter(kind="expired").count() == 20


def test_of_many_who_want_the_job_lock_one_gets_it() -> None:
    tokens = at_once(6, lambda n: job_lock.take(name="job", worker=f"w{n}", lease_s=60))
    assert len([token for token in tokens if token]) == 1


def test_the_ledger_alone_lets_one_of_many_intents_through() -> None:
    held = hold(make_running(leads=5))
    messages = list(Message.objects.values("pk", "step_id", "recipient_id"))

    def insert_all(number: int) -> int:
        won = 0
        for message in messages:
            rows = [
                SendAttempt(
                    message_id=message["pk"],
                    step_id=message["step_id"],
                    recipient_id=message["recipient_id"],
                    claim_id=held.claim,
                    number=number + 1,
                    worker=f"w{number}",
                    mail_id="m",
                    digest="d",
                )
            ]
            before = SendAttempt.objects.filter(worker=f"w{number}").count()
            SendAttempt.objects.bulk_create(rows, ignore_conflicts=True)
            won += SendAttempt.objects.filter(worker=f"w{number}").count() - before
        return won

    assert sum(at_once(6, insert_all)) == 5
