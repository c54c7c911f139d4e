"""The door to the CRM: say what a record should hold, and it will get there after your commit.

Producers use this module and `crmsync.nudge`, nothing else of the app.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from crmsync.errors import NotSendable
from crmsync.models import Operation, OutboxMessage
from crmsync.nudge import nudge_on_commit

Parent = Mapping[str, str]
Priority = OutboxMessage.Priority


def enqueue(
    *,
    object: str,
    external_id: str,
    fields: Mapping[str, Any],
    parents: Sequence[Parent] = (),
    priority: OutboxMessage.Priority = Priority.INTERACTIVE,
    operation: Operation = Operation.UPSERT,
) -> int:
    """Put a new version of one record into the outbox and answer the message's id. Call inside a transaction.

    `fields` has Rota's names: null empties a field in the CRM, absent leaves it alone. `parents` are
    `{"relation", "object", "external_id"}`, or with "crm_id" for a record that Rota did not create. A deletion has no
    fields; its parents are those that the record has in the CRM, should Rota not know them.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("Enqueue inside the transaction of the change that it reports.")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT message_id"
            " FROM outbox_enqueue(%s, ARRAY[%s], ARRAY[%s::jsonb], ARRAY[%s::jsonb], %s::smallint, %s)",
            [object, external_id, as_json(fields), as_json(list(parents)), int(priority), str(operation)],
        )
        (message_id,) = cursor.fetchone()
    nudge_on_commit()
    return int(message_id)


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a mass update: the line of the file it begins on, and the change."""

    line: int
    external_id: str
    fields: Mapping[str, Any]
    parents: Sequence[Parent] = ()


def enqueue_lines(*, object: str, operation: Operation, batch_id: int, lines: Sequence[Line]) -> int:
    """Put rows of a mass update into the outbox, in one statement. Answers how many. Call inside a transaction.

    Other transactions that write the same records wait until ours commits; so there should be few thousand at once.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM outbox_enqueue("
            "%s, %s::text[], %s::jsonb[], %s::jsonb[], %s::smallint, %s, %s, %s::int[])",
            [
                object,
                [line.external_id for line in lines],
                [as_json(line.fields) for line in lines],
                [as_json(list(line.parents)) for line in lines],
                int(Priority.MASS),
                str(operation),
                batch_id,
                [line.line for line in lines],
            ],
        )
        (count,) = cursor.fetchone()
    nudge_on_commit()
    return int(count)


def as_json(value: Any) -> str:
    """The value as JSON that Postgres and Salesforce both take: no NaN, no infinity, no NUL."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise NotSendable(str(error)) from error
    if "\\u0000" in text.replace("\\\\", ""):
        raise NotSendable("A text contains a NUL character.")
    return text
