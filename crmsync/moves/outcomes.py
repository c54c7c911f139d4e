"""What became of messages, written down: delivered, dead, or back to wait; their attempts; brakes on their lanes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection

from crmsync.backoff import Next, halvings
from crmsync.chunks import Candidate
from crmsync.classify import CONVERTED, Verdict
from crmsync.errors import Fault
from crmsync.models import FailureKind, Operation
from crmsync.moves.deletion import mark_deleted
from crmsync.moves.lanes import Brake
from crmsync.moves.putback import Back, plain


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one row: taken, with the id the CRM gave it if it told; or a fault.

    `of_job`: the fault is that of a whole job or request and says nothing about this row.
    """

    row: Candidate
    crm_id: str | None = None
    fault: Fault | None = None
    of_job: bool = False


Failed = tuple[Outcome, Verdict, Next]


DELIVERED = """
WITH told AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::bigint[], %(crm_ids)s::text[]) AS u(id, crm_id)
), done AS (
    UPDATE crmsync_outboxmessage AS m
       SET status = 'delivered', settled_at = clock_timestamp(), claim_id = NULL, attempts = m.attempts + 1
      FROM told
     WHERE m.id = told.id AND m.status = 'claimed' AND m.claim_id = %(token)s
    RETURNING m.record_id, m.version, m.parents, m.fields, told.crm_id
)
UPDATE crmsync_crmrecord AS r
   SET crm_id = coalesce(done.crm_id, r.crm_id), delivered_version = greatest(r.delivered_version, done.version),
       parents = outbox_merge_parents(r.parents, done.parents), owner = coalesce(done.fields ->> 'owner', r.owner),
       looked_up_at = coalesce(r.looked_up_at, clock_timestamp())
  FROM done WHERE r.id = done.record_id
"""
DEAD = """
UPDATE crmsync_outboxmessage AS m
   SET status = 'dead', settled_at = clock_timestamp(), claim_id = NULL, attempts = m.attempts + u.charge,
       failure_kind = u.kind, failure_code = u.code, failure_text = u.text, failure_field = u.field
  FROM unnest(%(ids)s::bigint[], %(charges)s::int[], %(kinds)s::text[], %(codes)s::text[], %(texts)s::text[],
              %(fields)s::text[]) AS u(id, charge, kind, code, text, field)
 WHERE m.id = u.id AND m.status = 'claimed' AND m.claim_id = %(token)s
"""
LOOK_UP_AGAIN = "UPDATE crmsync_crmrecord SET looked_up_at = NULL WHERE id = ANY (%(records)s)"
# A contact that was never created: what it is to be is asked anew.
DECIDE_AGAIN = """
UPDATE crmsync_crmrecord SET looked_up_at = NULL, written_as = '', parents = '[]'
 WHERE id = ANY (%(records)s) AND written_as <> '' AND crm_id IS NULL
"""
ATTEMPTS = """
UPDATE crmsync_attempt AS a
   SET ended_at = clock_timestamp(), outcome = u.outcome, code = u.code, text = u.text
  FROM unnest(%(ids)s::bigint[], %(outcomes)s::text[], %(codes)s::text[], %(texts)s::text[])
       AS u(id, outcome, code, text)
 WHERE a.message_id = u.id AND a.claim_id = %(token)s AND a.ended_at IS NULL
"""


def run(statement: str, values: dict[str, Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.rowcount


def mark_taken(*, token: UUID, operation: str, outcomes: Sequence[Outcome]) -> tuple[int, list[int]]:
    """How many messages are delivered; and those, to be put back, that deleted their record and still write it."""
    ids = [outcome.row.message_id for outcome in outcomes]
    if not ids:
        return 0, []
    if operation == Operation.DELETE:
        return mark_deleted(token=token, message_ids=ids)
    crm_ids = [outcome.crm_id for outcome in outcomes]
    return run(DELIVERED, {"token": token, "ids": ids, "crm_ids": crm_ids}), []


def fault_in(outcome: Outcome) -> Fault:
    assert outcome.fault is not None
    return outcome.fault


def mark_dead(*, token: UUID, failed: Sequence[Failed]) -> int:
    if not failed:
        return 0
    faults = [fault_in(outcome) for outcome, _, _ in failed]
    return run(
        DEAD,
        {
            "token": token,
            "ids": [outcome.row.message_id for outcome, _, _ in failed],
            "charges": [following.charge for _, _, following in failed],
            "kinds": [str(verdict.kind) for _, verdict, _ in failed],
            "codes": [fault.code for fault in faults],
            "texts": [plain(fault.text) for fault in faults],
            "fields": [", ".join(fault.fields) for fault in faults],
        },
    )


def dead_of_silence(*, token: UUID, message_ids: Sequence[int], fault: Fault) -> int:
    """Give up messages that nobody reported back about too often. Call inside a transaction."""
    return run(
        DEAD,
        {
            "token": token,
            "ids": list(message_ids),
            "charges": [1] * len(message_ids),
            "kinds": [str(FailureKind.UNANSWERED)] * len(message_ids),
            "codes": [fault.code] * len(message_ids),
            "texts": [plain(fault.text)] * len(message_ids),
            "fields": [""] * len(message_ids),
        },
    )


def end_attempts(*, token: UUID, delivered: Sequence[Outcome], failed: Sequence[Failed]) -> None:
    faults = [fault_in(outcome) for outcome, _, _ in failed]
    run(
        ATTEMPTS,
        {
            "token": token,
            "ids": [outcome.row.message_id for outcome in delivered] + [entry[0].row.message_id for entry in failed],
            "outcomes": ["delivered"] * len(delivered) + [str(verdict.kind) for _, verdict, _ in failed],
            "codes": [""] * len(delivered) + [fault.code for fault in faults],
            "texts": [""] * len(delivered) + [plain(fault.text) for fault in faults],
        },
    )


NO_SUCH_PARENT = {
    "ENTITY_IS_DELETED", "INVALID_CROSS_REFERENCE_KEY", "INSUFFICIENT_ACCESS_ON_CROSS_REFERENCE_ENTITY",
}  # fmt: skip


def look_up_again(failed: Sequence[Failed]) -> None:
    """Before the next write the org is asked anew: what leads became that were converted meanwhile, and whether those
    are to be contacts whose account it did not take."""
    orphans = [outcome.row.record_id for outcome, _, _ in failed if fault_in(outcome).code in NO_SUCH_PARENT]
    if orphans:
        run(DECIDE_AGAIN, {"records": orphans})
    converted = [outcome.row.record_id for outcome, _, _ in failed if fault_in(outcome).code == CONVERTED]
    if converted:
        run(LOOK_UP_AGAIN, {"records": converted})


def back_of(outcome: Outcome, verdict: Verdict, following: Next) -> Back:
    return Back(
        message_id=outcome.row.message_id,
        wait_ms=following.wait_ms,
        charge=following.charge,
        kind=str(verdict.kind),
        fault=fault_in(outcome),
    )


def brakes_of(failed: Sequence[Failed], *, rows: int) -> list[Brake]:
    """`rows`: how many were in one of the org's transactions."""
    return [
        Brake(
            key=key,
            wait_ms=following.lane_wait_ms,
            halvings=max(1, halvings(rows)) if following.halve else 0,
            quarantine_ms=following.quarantine_ms,
        )
        for outcome, _, following in failed
        for key in (outcome.row.keys if following.quarantine_ms else outcome.row.backoff_keys)
    ]
