"""A bulk job's steps in its journal: taken by one worker at a time, each written down before the next.

Every change names the holder it was taken under. Whoever was so slow that another worker took the job over finds
ClaimLost, and has changed nothing.
"""

import random
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest, Now

from crmsync.classify import classify
from crmsync.errors import ClaimLost, Fault
from crmsync.models import BulkJob, Claim, OutboxMessage
from crmsync.moves import org
from crmsync.moves.claim import Chunk
from crmsync.moves.reading import candidates_of, read

Status = BulkJob.Status

MOST_TIMES_FIRST = 30  # the longest wait between two looks, in times of the first


def plan_job(*, token: UUID, road: str, object: str, operation: str, rows: int, worker: str) -> BulkJob:
    """A job that the org does not know yet, held by this worker. Call inside the transaction that begins the claim."""
    job = BulkJob.objects.create(
        claim_id=token,
        road=road,
        object=object,
        operation=operation,
        rows=rows,
        worker=worker,
        holder=uuid.uuid4(),
        held_until=Now() + timedelta(seconds=settings.CRM_LEASE_S),
    )
    job.refresh_from_db()
    return job


@dataclass(frozen=True, slots=True)
class Taken:
    """A job and the rows it carries, for one worker to take its next step."""

    job: BulkJob
    chunk: Chunk


def take_job(*, worker: str) -> Taken | None:
    """The unfinished job that is longest due, or None; nothing, while the org is paused."""
    if not BulkJob.objects.due().exists() or not org.may_write():
        return None
    with transaction.atomic(durable=True):
        # Proves: due, and nobody else takes its step until `held_until`. The loser skips.
        job = BulkJob.objects.due().order_by("look_at").select_for_update(skip_locked=True, no_key=True).first()
        if job is None:
            return None
        until = Now() + timedelta(seconds=settings.CRM_LEASE_S)
        BulkJob.objects.filter(pk=job.pk).update(holder=uuid.uuid4(), held_until=until, worker=worker)
        Claim.objects.filter(pk=job.claim_id).update(lease_until=Greatest(F("lease_until"), until))
        job.refresh_from_db()
    return Taken(job, chunk_of(job))


def chunk_of(job: BulkJob) -> Chunk:
    """The rows that lie in the job: all that its claim still holds."""
    messages = read(OutboxMessage.objects.filter(claim=job.claim_id).order_by("pk"))
    return Chunk(
        token=job.claim_id,
        worker=job.worker,
        object=job.object,
        operation=job.operation,
        rows=tuple(candidates_of(messages)),
        road=job.road,
    )


def step(job: BulkJob, status: Status, **seen: Any) -> None:
    """Write down how far it has come. Raises ClaimLost."""
    with transaction.atomic(durable=True):
        change(job, status=status, looks=0, **seen)
        if status == Status.CREATED:
            org.bulk_taken()


def look_again(job: BulkJob, **seen: Any) -> None:
    """Let it go until its next look, the later the more there were. Raises ClaimLost."""
    looks = job.looks + 1
    wait_ms = settings.CRM_POLL_FIRST_MS * min(1.4 ** min(looks - 1, 50), MOST_TIMES_FIRST)
    works = job.status == Status.CLOSED and "org_state" in seen
    change(
        job,
        status=Status.POLLING if works else job.status,
        looks=looks,
        look_at=Now() + timedelta(milliseconds=wait_ms),
        holder=None,
        held_until=None,
        **seen,
    )


def end_job(job: BulkJob, **noted: Any) -> None:
    """Harvested, or aborted where nothing of it was processed. Call inside a transaction. Raises ClaimLost."""
    never_began = job.status in (Status.PLANNED, Status.CREATED)
    status = Status.ABORTED if never_began else Status.HARVESTED
    # `job` itself stays as it is: should the transaction fail, the same call is made again.
    write(job, status=status, ended_at=Now(), holder=None, held_until=None, **noted)


def note_fault(fault: Fault, *, bulk: bool = False) -> None:
    """What a call for a job, not for its rows, showed of the org. `bulk`: it takes no bulk jobs at the moment."""
    verdict = classify(fault, external_id_field=settings.CRM_EXTERNAL_ID_FIELD)
    with transaction.atomic(durable=True):
        if bulk or verdict.bulk_only:
            org.close_bulk(verdict=verdict, fault=fault)
        elif verdict.org_wide or verdict.may_have_arrived:
            org.not_taken(verdict=verdict, fault=fault, dice=random.random())


def no_orphan_of(job: BulkJob) -> None:
    """The org was asked: what it may have made of this job has been found, or there is none."""
    BulkJob.objects.filter(pk=job.pk).update(maybe_orphaned=False)


def change(job: BulkJob, **values: Any) -> None:
    write(job, **values)
    job.refresh_from_db()


def write(job: BulkJob, **values: Any) -> None:
    if not BulkJob.objects.unfinished().filter(pk=job.pk, holder=job.holder).update(**values):
        raise ClaimLost(f"job={job.pk}")
