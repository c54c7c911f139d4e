"""Write down what the CRM said about every row of a chunk, and free its lanes: one transaction, or nothing.

Whoever settles must still own the claim. A worker that comes too late changes nothing, even if the CRM took its rows:
they are sent again, and an upsert by external id may be repeated.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from crmsync.backoff import MOST_ROWS, Patience, what_next
from crmsync.classify import classify
from crmsync.errors import ClaimLost, Fault
from crmsync.models import BulkJob, Claim, FailureKind, OutboxMessage
from crmsync.moves import org
from crmsync.moves.claim import Chunk
from crmsync.moves.jobs import end_job
from crmsync.moves.lanes import free_lanes
from crmsync.moves.outcomes import (
    Failed,
    Outcome,
    back_of,
    brakes_of,
    end_attempts,
    fault_in,
    look_up_again,
    mark_dead,
    mark_taken,
)
from crmsync.moves.pace import note_chunk
from crmsync.moves.putback import Back, put_back
from crmsync.roads import Road

# Bulk API guide: a batch of which so many rows met locks is put back; those that got through at last are not told of.
LOCKED_OF_RETRY = 100


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
        quarantine_ms=int(settings.CRM_QUARANTINE_S * 1000),
    )


def settle(
    *,
    chunk: Chunk,
    outcomes: Sequence[Outcome],
    whole_request: Fault | None = None,
    usage: org.Usage | None = None,
    job: BulkJob | None = None,
    noted: Mapping[str, Any] | None = None,
    heard: bool = True,
    dice: Callable[[], float] = random.random,
) -> Settled:
    """Every row's outcome, in one transaction. `whole_request`: the org did not take the request, so each row failed.

    `usage`: what the org last said of its calls of the day. `job`: the bulk job that carried the rows; it ends with
    them, and `noted` is noted on it. `heard`: false where nothing follows for the org as a whole. Raises ClaimLost
    and changes nothing where the claim has ended, or another worker took the job, meanwhile.
    """
    with transaction.atomic(durable=True):
        if job is not None:
            end_job(job, **(noted or {}))
        end_claim(token=chunk.token, reason=Claim.EndReason.SETTLED)
        lock_records(row.record_id for row in chunk.rows)
        rows = min(len(chunk.rows), MOST_ROWS)  # a bulk job's transactions have no more either
        weighed = weigh(outcomes, rows=rows, whole_request=whole_request is not None, dice=dice)
        counts = write_down(token=chunk.token, operation=chunk.operation, weighed=weighed)
        if counts.delivered + counts.put_back + counts.dead != len(chunk.rows):
            raise ClaimLost(f"token={chunk.token}: {counts} of {len(chunk.rows)} rows")
        free_lanes(token=chunk.token, brakes=brakes_of(weighed.failed, rows=rows))
        if heard:
            note_org(whole_request=whole_request, failed=weighed.failed, dice=dice(), usage=usage)
        retries = int((noted or {}).get("retries", 0))
        note_pace(chunk=chunk, whole_request=whole_request, failed=weighed.failed, retries=retries)
    return counts


@dataclass
class Weighed:
    """The outcomes by what follows from them."""

    taken: list[Outcome] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)


def weigh(
    outcomes: Sequence[Outcome], *, rows: int, whole_request: bool = False, dice: Callable[[], float] = random.random
) -> Weighed:
    """Decide what follows for each. Call inside a transaction that has locked their records."""
    parents_coming = records_with_parents_coming(outcomes)
    org_was_well = org.was_well() if whole_request else True
    weighed = Weighed()
    for outcome in outcomes:
        if outcome.fault is None:
            weighed.taken.append(outcome)
            continue
        verdict = classify(outcome.fault, external_id_field=settings.CRM_EXTERNAL_ID_FIELD)
        following = what_next(
            verdict,
            attempts=outcome.row.attempts,
            rows=rows,
            whole_request=whole_request or outcome.of_job,
            org_was_well=org_was_well,
            parent_coming=outcome.row.record_id in parents_coming,
            patience=patience(),
            dice=dice(),
        )
        weighed.failed.append((outcome, verdict, following))
    return weighed


def write_down(*, token: UUID, operation: str, weighed: Weighed) -> Settled:
    """The messages and their attempts. Call inside a transaction that has locked their records."""
    count, half_done = mark_taken(token=token, operation=operation, outcomes=weighed.taken)
    back = [Back(message_id) for message_id in half_done]
    back += [back_of(*entry) for entry in weighed.failed if not entry[2].dead]
    counts = Settled(
        delivered=count,
        put_back=put_back(token=token, messages=back),
        dead=mark_dead(token=token, failed=[entry for entry in weighed.failed if entry[2].dead]),
    )
    end_attempts(token=token, delivered=weighed.taken, failed=weighed.failed)
    look_up_again(weighed.failed)
    return counts


def end_claim(*, token: UUID, reason: Claim.EndReason) -> None:
    """Ours to settle, and nobody else's from here on. Call inside a transaction. Raises ClaimLost."""
    if not Claim.objects.live().filter(token=token).update(ended_at=Now(), end_reason=reason):
        raise ClaimLost(f"token={token}")


LOCK_RECORDS = """
SELECT 1 FROM crmsync_crmrecord WHERE id = ANY (%s) ORDER BY object, external_id FOR NO KEY UPDATE
"""


def lock_records(record_ids: Iterable[int]) -> None:
    """Lock records in the order in which versions are drawn. Call inside a transaction.

    Proves: no newer version comes between our look and our commit. Costs: a producer of one of these records waits for
    this one transaction. We wait for a producer's commit, at most for lock_timeout; then the flow tries again.
    """
    with connection.cursor() as cursor:
        cursor.execute(LOCK_RECORDS, [list(set(record_ids))])


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


def note_org(
    *, whole_request: Fault | None, failed: Sequence[Failed], dice: float, usage: org.Usage | None = None
) -> None:
    """Pause the org or end its pause, by what the request as a whole showed."""
    if whole_request is not None:
        verdict = classify(whole_request, external_id_field=settings.CRM_EXTERNAL_ID_FIELD)
        if verdict.org_wide or verdict.may_have_arrived:
            org.not_taken(verdict=verdict, fault=whole_request, dice=dice)
            return
    for outcome, verdict, _ in failed:
        if verdict.bulk_only:
            org.close_bulk(verdict=verdict, fault=fault_in(outcome))
            return
        if verdict.org_wide:
            org.not_taken(verdict=verdict, fault=fault_in(outcome), dice=dice)
            return
    org.answered(usage=usage)


def note_pace(*, chunk: Chunk, whole_request: Fault | None, failed: Sequence[Failed], retries: int = 0) -> None:
    """Let the number of mass chunks at once follow what the org made of this one. `retries`: see BulkJob."""
    if chunk.is_mass:
        kinds = [verdict.kind for _, verdict, _ in failed]
        load = FailureKind.RATE_LIMIT in kinds or (whole_request is not None and FailureKind.TRANSIENT in kinds)
        locked = max(kinds.count(FailureKind.CONTENTION), min(retries * LOCKED_OF_RETRY, len(chunk.rows)))
        call = None if Road(chunk.road).is_bulk else chunk.token
        note_chunk(rows=len(chunk.rows), locked=locked, refused=load, call=call)
