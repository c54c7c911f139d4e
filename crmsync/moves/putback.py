"""A claimed message that did not arrive goes back to wait, or into the newer version that has come meanwhile.

It keeps what it has waited and failed. Its fields go into a newer pending version where that does not set them: newer
wins, nothing is lost, and a record never has two messages waiting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from crmsync.errors import Fault

# The record's row is locked by the caller, so that no version is drawn between the look for a newer one and our commit.
PUT_BACK = """
WITH back AS MATERIALIZED (
    SELECT m.id, m.record_id, m.operation, m.afterwards, m.fields, m.parents, m.priority, m.requested_by, m.reason,
           m.attempts + u.charge AS attempts, clock_timestamp() + u.wait_ms * interval '1 millisecond' AS due_at,
           u.kind, u.code, u.text, u.field
      FROM unnest(%(ids)s::bigint[], %(waits)s::int[], %(charges)s::int[], %(kinds)s::text[], %(codes)s::text[],
                  %(texts)s::text[], %(fields)s::text[]) AS u(id, wait_ms, charge, kind, code, text, field)
      JOIN crmsync_outboxmessage AS m ON m.id = u.id
     WHERE m.status = 'claimed' AND m.claim_id = %(token)s
), newer AS (
    UPDATE crmsync_outboxmessage AS n
       SET operation = outbox_merge_operation(b.operation, n.operation),
           afterwards = outbox_merge_afterwards(b.operation, b.afterwards, n.operation, n.afterwards),
           fields = outbox_merge_fields(b.fields, n.operation, n.fields),
           parents = CASE WHEN n.operation = 'delete' THEN n.parents
                          ELSE outbox_merge_parents(b.parents, n.parents) END,
           priority = least(b.priority, n.priority), due_at = greatest(b.due_at, n.due_at),
           attempts = greatest(b.attempts, n.attempts),
           requested_by = CASE WHEN n.requested_by = '' THEN b.requested_by ELSE n.requested_by END,
           reason = CASE WHEN n.reason = '' THEN b.reason ELSE n.reason END,
           failure_kind = coalesce(b.kind, n.failure_kind), failure_code = b.code, failure_text = b.text,
           failure_field = b.field, pile = NULL
      FROM back AS b
     WHERE n.record_id = b.record_id AND n.status = 'pending'
    RETURNING n.id, b.id AS older
)
UPDATE crmsync_outboxmessage AS m
   SET status = CASE WHEN newer.id IS NULL THEN 'pending' ELSE 'superseded' END, claim_id = NULL,
       settled_at = CASE WHEN newer.id IS NULL THEN NULL ELSE clock_timestamp() END, superseded_by_id = newer.id,
       attempts = b.attempts, due_at = b.due_at, pile = NULL, failure_kind = coalesce(b.kind, m.failure_kind),
       failure_code = b.code, failure_text = b.text, failure_field = b.field
  FROM back AS b LEFT JOIN newer ON newer.older = b.id
 WHERE m.id = b.id
"""


@dataclass(frozen=True, slots=True)
class Back:
    """One message to put back: when it is due again, whether the try counted, and what was said, if anything was."""

    message_id: int
    wait_ms: int = 0
    charge: int = 0
    kind: str | None = None
    fault: Fault = Fault("")


def put_back(*, token: UUID, messages: Sequence[Back]) -> int:
    """Messages put back. Call inside a transaction that has locked their records and ended the claim."""
    if not messages:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            PUT_BACK,
            {
                "token": token,
                "ids": [back.message_id for back in messages],
                "waits": [back.wait_ms for back in messages],
                "charges": [back.charge for back in messages],
                "kinds": [back.kind for back in messages],
                "codes": [back.fault.code for back in messages],
                "texts": [plain(back.fault.text) for back in messages],
                "fields": [", ".join(back.fault.fields) for back in messages],
            },
        )
        return cursor.rowcount


def plain(text: str) -> str:
    """Somebody else's words, as a text column takes them."""
    return text.replace("\x00", "")[:2000]
