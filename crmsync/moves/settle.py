"""Write down what the CRM said about every row of a chunk, and free its lanes: one transaction, or nothing.

Whoever settles must still own the claim. A worker that comes too late changes nothing, even if the CRM took its rows:
they are sent again, and an upsert by external id may be repeated.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from crmsync.backoff import Next, Patience, halvings, what_next
from crmsync.chunks import Candidate
from crmsync.classify import Verdict, classify
from crmsync.errors import ClaimLost, Fault
from crmsync.models import Claim, CrmRecord, FailureKind, Operation, OutboxMessage
from crmsync.moves import org
from crmsync.moves.claim import Chunk
from crmsync.moves.deletion import mark_deleted
from crmsync.moves.lanes import Brake, free_lanes
from crmsync.moves.pace import note_chunk
from crmsync.moves.putback import Back, plain, put_back


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one row: taken, with the id the CRM gave it if it told; or a fault."""

    row: Candidate
    crm_id: str | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    delivered: int = 0
    put_back: int = 0
    dead: int = 0


def patience() -> Patience:
    return Patience(
        first_ms=settings.CRM_BACKOFF_FIRST_MS,
        cap_ms=settings.CRM_BACKOFF_CAP_MS,
        attempts_most=settings.CRM_ATTEMPTS_MOST,
        quarantine_ms=settings.CRM_QUARANTINE_S * 1000,
    )


def settle(
    *,
    chunk: Chunk,
    outcomes: Sequence[Outcome],
    whole_request: Fault | None = None,
    dice: Callable[[], float] = random.random,
) -> Settled:
    """Every row's outcome, in one transaction. `whole_request`: the org did not take the request, so each row failed.

    Raises ClaimLost and changes nothing where the claim has ended meanwhile.
    """
    with transaction.atomic(durable=True):
        end_claim(token=chunk.token, reason=Claim.EndReason.SETTLED)
        lock_records(row.record_id for row in chunk.rows)
        parents_coming = records_with_parents_coming(outcomes)
        org_was_well = org.was_well() if whole_request else True
        delivered: list[Outcome] = []
        failed: list[tuple[Outcome, Verdict, Next]] = []
        for outcome in outcomes:
            if outcome.fault is None:
                delivered.append(outcome)
                continue
            verdict = classify(outcome.fault, external_id_field=settings.CRM_EXTERNAL_ID_FIELD)
            following = what_next(
                verdict,
                attempts=outcome.row.attempts,
                rows=len(chunk.rows),
                whole_request=whole_request is not None,
                org_was_well=org_was_well,
                parent_coming=outcome.row.record_id in parents_coming,
                patience=patience(),
                dice=dice(),
            )
            failed.append((outcome, verdict, following))
        count, half_done = mark_taken(chunk=chunk, outcomes=delivered)
        back = [Back(message_id) for message_id in half_done]
        back += [back_of(*entry) for entry in failed if not entry[2].dead]
        counts = Settled(
            delivered=count,
            put_back=put_back(token=chunk.token, messages=back),
            dead=mark_dead(token=chunk.token, failed=[entry for entry in failed if entry[2].dead]),
        )
        if counts.delivered + counts.put_back + counts.dead != len(chunk.rows):
            raise ClaimLost(f"token={chunk.token}: {counts} of {len(chunk.rows)} rows")
        end_attempts(token=chunk.token, delivered=delivered, failed=failed)
        free_lanes(token=chunk.token, brakes=brakes_of(failed, rows=len(chunk.rows)))
        note_org(whole_request=whole_request, failed=failed, dice=dice())
        note_pace(chunk=chunk, whole_request=whole_request, failed=failed)
    return counts


def end_claim(*, token: UUID, reason: Claim.EndReason) -> None:
    """Ours to settle, and nobody else's from here on. Call inside a transaction. Raises ClaimLost."""
    if not Claim.objects.live().filter(token=token).update(ended_at=Now(), end_reason=reason):
        raise ClaimLost(f"token={token}")


def lock_records(record_ids: Iterable[int]) -> None:
    """Lock records in the order in which versions are drawn. Call inside a transaction.

    Proves: no newer version comes between our look and our commit. Costs: a producer of one of these records waits for
    this one transaction. We wait for a producer's commit, at most for lock_timeout; then the flow tries again.
    """
    list(
        CrmRecord.objects.filter(pk__in=set(record_ids))
        .order_by("object", "external_id")
        .select_for_update(no_key=True)
        .values_list("pk")
    )


def records_with_parents_coming(outcomes: Sequence[Outcome]) -> set[int]:
    """Records whose parent still has a message on its way."""
    failed = [outcome.row for outcome in outcomes if outcome.fault is not None and outcome.row.parents]
    if not failed:
        return set()
    keys = {parent.get("external_id", "") for row in failed for parent in row.parents}
    coming = set(
        OutboxMessage.objects.open()
        .filter(record__external_id__in=keys)
        .values_list("record__object", "record__external_id")
    )
    return {
        row.record_id
        for row in failed
        if any((parent["object"], parent.get("external_id", "")) in coming for parent in row.parents)
    }


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
       looked_up_at = coalesce(r.looked_up_at, clock_timestamp()), keeps_owner = false
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


def mark_taken(*, chunk: Chunk, outcomes: Sequence[Outcome]) -> tuple[int, list[int]]:
    """How many messages are delivered; and those, to be put back, that deleted their record and still write it."""
    ids = [outcome.row.message_id for outcome in outcomes]
    if not ids:
        return 0, []
    if chunk.operation == Operation.DELETE:
        return mark_deleted(token=chunk.token, message_ids=ids)
    crm_ids = [outcome.crm_id for outcome in outcomes]
    return run(DELIVERED, {"token": chunk.token, "ids": ids, "crm_ids": crm_ids}), []


Failed = tuple[Outcome, Verdict, Next]


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


def back_of(outcome: Outcome, verdict: Verdict, following: Next) -> Back:
    return Back(
        message_id=outcome.row.message_id,
        wait_ms=following.wait_ms,
        charge=following.charge,
        kind=str(verdict.kind),
        fault=fault_in(outcome),
    )


def brakes_of(failed: Sequence[Failed], *, rows: int) -> list[Brake]:
    return [
        Brake(
            key=key,
            wait_ms=following.lane_wait_ms,
            halvings=halvings(rows) if following.halve else 0,
            quarantine_ms=following.quarantine_ms,
        )
        for outcome, _, following in failed
        for key in (outcome.row.keys if following.quarantine_ms else outcome.row.backoff_keys)
    ]


def note_org(*, whole_request: Fault | None, failed: Sequence[Failed], dice: float) -> None:
    """Pause the org or end its pause, by what the request as a whole showed."""
    if whole_request is not None:
        verdict = classify(whole_request, external_id_field=settings.CRM_EXTERNAL_ID_FIELD)
        if verdict.org_wide or verdict.may_have_arrived:
            org.not_taken(verdict=verdict, fault=whole_request, dice=dice)
            return
    for outcome, verdict, _ in failed:
        if verdict.org_wide:
            org.not_taken(verdict=verdict, fault=fault_in(outcome), dice=dice)
            return
    org.answered()


def note_pace(*, chunk: Chunk, whole_request: Fault | None, failed: Sequence[Failed]) -> None:
    """Let the number of mass chunks at once follow what the org made of this one."""
    if chunk.is_mass:
        kinds = [verdict.kind for _, verdict, _ in failed]
        load = FailureKind.RATE_LIMIT in kinds or (whole_request is not None and FailureKind.TRANSIENT in kinds)
        locked = kinds.count(FailureKind.CONTENTION)
        call = None if chunk.road.is_bulk else chunk.token
        note_chunk(rows=len(chunk.rows), locked=locked, refused=load, call=call)
