"""Rows to start a test from, and the few moves that many tests make."""

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db import connection, transaction

from crmsync.flows.deliver import Delivery, deliver
from crmsync.models import BulkJob, CrmRecord, OutboxMessage
from crmsync.moves.claim import Chunk, take
from crmsync.moves.reading import candidates_of, read
from crmsync.outbox import enqueue


def put(
    external_id: str = "", *, object: str = "Lead", account: str = "", priority: int = 0, **fields: Any
) -> OutboxMessage:
    """Enqueue one change in a transaction of its own."""
    parents = [{"relation": "Account", "object": "Account", "external_id": account}] if account else []
    with transaction.atomic():
        message_id = enqueue(
            object=object,
            external_id=external_id or str(uuid.uuid4()),
            fields=fields or {"email": "ada@customer.example"},
            parents=parents,
            priority=OutboxMessage.Priority(priority),
        )
    return OutboxMessage.objects.select_related("record").get(pk=message_id)


def put_many(
    external_ids: Sequence[str],
    *,
    object: str = "Contact",
    operation: str = "upsert",
    account: str = "",
    fields: Mapping[str, Any] | Sequence[Mapping[str, Any]] = {"last_name": "N"},  # noqa: B006
) -> list[OutboxMessage]:
    """Enqueue one mass change for each, in one statement, in this order."""
    each = [fields] * len(external_ids) if isinstance(fields, Mapping) else fields
    parents = [{"relation": "Account", "object": "Account", "external_id": account}] if account else []
    with transaction.atomic():
        run_sql(
            "SELECT outbox_enqueue(%s, %s, %s::jsonb[], %s::jsonb[], 1::smallint, %s)",
            [
                object,
                list(external_ids),
                [json.dumps(entry) for entry in each],
                [json.dumps(parents)] * len(external_ids),
                operation,
            ],
        )
    newest = OutboxMessage.objects.filter(record__object=object, record__external_id__in=external_ids).newest()
    by_key = {message.record.external_id: message for message in newest.select_related("record")}
    return [by_key[external_id] for external_id in external_ids]


def put_contacts(account: str, count: int) -> list[OutboxMessage]:
    return [put(f"{account}-{n}", object="Contact", account=account, last_name=f"N{n}") for n in range(count)]


def again(message: OutboxMessage) -> OutboxMessage:
    return OutboxMessage.objects.select_related("record").get(pk=message.pk)


def statuses(messages: Sequence[OutboxMessage]) -> list[str]:
    return [again(message).status for message in messages]


def record_of(message: OutboxMessage) -> CrmRecord:
    return CrmRecord.objects.get(pk=message.record_id)


def drain(*, seconds: float = 10, worker: str = "test:1") -> Delivery:
    """Deliver until nothing is pending any more, waiting for what is backing off."""
    until = time.monotonic() + seconds
    total = Delivery()
    while time.monotonic() < until:
        done = deliver(budget_s=seconds, worker=worker)
        for name in ("chunks", "job_steps", "delivered", "put_back", "dead", "claims_lost"):
            setattr(total, name, getattr(total, name) + getattr(done, name))
        if not (OutboxMessage.objects.pending().exists() or BulkJob.objects.unfinished().exists()):
            return total
        time.sleep(0.01)
    raise AssertionError(f"still pending after {seconds} s: {list(OutboxMessage.objects.pending().values()[:3])}")


def eventually(condition: Callable[[], Any], *, seconds: float = 10, what: str = "") -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"did not happen within {seconds} s: {what or condition}")


def claim_everything(*, worker: str = "test:1") -> Chunk:
    """All that is due in one chunk, however many rows: what a planner may offer."""
    due = read(OutboxMessage.objects.due())
    chunk = take(worker=worker, wanted=candidates_of(due))
    assert chunk is not None
    return chunk


def age_claims(seconds: int = 3_600) -> None:
    """As if every live claim had been made, and begun, that much earlier."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE crmsync_claim SET claimed_at = claimed_at - %(s)s * interval '1 second',"
            " lease_until = lease_until - %(s)s * interval '1 second',"
            " begun_at = begun_at - %(s)s * interval '1 second' WHERE ended_at IS NULL",
            {"s": seconds},
        )


def run_sql(statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []
