"""Mass updates to start a planner's test from."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connection

from crmsync import outbox
from crmsync.models import Batch, Operation
from crmsync.moves import batches
from crmsync.moves.claim import Chunk, claim_next
from tests.crmsync.rows import run_sql


def put_mass(object: str, keys: Sequence[str], parents: Sequence[Sequence[dict[str, str]]]) -> None:
    """Enqueue a mass update in one call."""
    run_sql(
        "SELECT count(*) FROM outbox_enqueue(%s, %s, %s::jsonb[], %s::jsonb[], 1::smallint)",
        [object, list(keys), ['{"last_name": "N"}'] * len(keys), [json.dumps(list(each)) for each in parents]],
    )


def put_contacts_of(sizes: dict[str, int]) -> None:
    """So many contacts under each account."""
    accounts = [account for account, size in sizes.items() for _ in range(size)]
    keys = [f"{account}-{n}" for account, size in sizes.items() for n in range(size)]
    put_mass("Contact", keys, [[account_of(account)] for account in accounts])


def account_of(name: str) -> dict[str, str]:
    return {"relation": "Account", "object": "Account", "external_id": name}


def claim_all(most: int = 1000, **arguments: Any) -> list[Chunk]:
    """Claim until there is nothing to claim, settling nothing."""
    chunks: list[Chunk] = []
    while len(chunks) < most and (chunk := claim_next(worker=f"w:{len(chunks)}", **arguments)):
        chunks.append(chunk)
    return chunks


def sizes_of(chunk: Chunk) -> dict[str, int]:
    """Rows of the chunk by account."""
    found: dict[str, int] = {}
    for row in chunk.rows:
        for parent in row.parents:
            found[parent["external_id"]] = found.get(parent["external_id"], 0) + 1
    return found


def put_batch(name: str, sizes: dict[str, int]) -> Batch:
    """A mass update with so many contacts under each account, queued; those under "" have no account."""
    names = [account for account, size in sizes.items() for _ in range(size)]
    file = batches.File(name, name, "", ["Rota_Id__c"], len(names))
    batch, _ = batches.start(file=file, object="Contact", operation=Operation.UPSERT, by="ops")
    lines = [
        outbox.Line(n, f"{name}-{n}", {"title": name}, [account_of(account)] if account else [])
        for n, account in enumerate(names, start=2)
    ]
    assert batches.queue_lines(batch=batch, at=0, lines=lines)
    assert batches.finish_queueing(batch_id=batch.pk)
    return batch


@contextmanager
def no_more_statements_than(most: int) -> Iterator[None]:
    """Fail, where something would go on for ever."""
    left = iter(range(most))

    def counted(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        assert next(left, None) is not None, f"more than {most} statements"
        return execute(sql, params, many, context)

    with connection.execute_wrapper(counted):
        yield
