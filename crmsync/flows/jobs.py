"""Bulk jobs, step by step: each step is written down before the next, and any worker goes on where another stopped.

Until a job is closed (1.0: until its batch is there) nothing of it has been processed, so what goes wrong before that
is taken back: the job is aborted and its rows wait for another road. From then on there is one way only, forwards: the
job is looked at until the org has ended it, read, and every row gets the outcome that the org names for its key. What
the org does not account for is in doubt, and sent again: every operation may be repeated.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from crmsync import bulk1, bulk2
from crmsync.answers import job_fault
from crmsync.bulk import BulkRoad, Ref, Seen, Told, key_of
from crmsync.bulk_csv import flat
from crmsync.chunks import Candidate
from crmsync.classify import classify, is_gone
from crmsync.direct import Row
from crmsync.errors import NO_ANSWER, NOT_PROCESSED, CallFailed, Fault
from crmsync.flows.bodies import bodies, headers_of, target_of
from crmsync.flows.settling import patiently
from crmsync.gateway import Org
from crmsync.models import BulkJob, FailureKind
from crmsync.moves.claim import Chunk
from crmsync.moves.jobs import Taken, chunk_of, look_again, note_fault, step, take_job
from crmsync.moves.outcomes import Outcome
from crmsync.moves.settle import Settled, settle
from crmsync.roads import Road

log = logging.getLogger(__name__)

Status = BulkJob.Status

BULK_ROADS: Mapping[Road, BulkRoad] = {Road.BULK2: bulk2, Road.BULK1: bulk1}
READS_MOST = 4  # results may lag behind the job's end; after so many reads what is missing is in doubt


def start(*, job: BulkJob, sent: Sequence[Candidate], org: Org, data: bytes) -> Settled:
    """Make the job, fill it and close it. Raises ClaimLost."""
    chunk = replace(chunk_of(job), rows=tuple(sent))
    road, headers = BULK_ROADS[Road(job.road)], headers_of(chunk)
    try:
        step(job, Status.CREATED, org_id=road.create(org, target_of(chunk), headers))
        step(job, Status.UPLOADED, batch_id=road.upload(org, ref(job), data, headers))
        road.close(org, ref(job), headers)
    except CallFailed as failed:
        return stumbled(job, chunk, org, failed.fault)
    step(job, Status.CLOSED)
    look_again(job)
    return Settled()


def advance(*, worker: str, org: Org) -> Settled | None:
    """Take the next step of the job that is longest due, or None: none is. Raises ClaimLost."""
    not_after = time.monotonic() + settings.CRM_TIMEOUT_S
    taken = take_job(worker=worker)
    if taken is None:
        return None
    with org.until(not_after):
        try:
            return go_on(taken, org)
        except CallFailed as failed:
            return stumbled(taken.job, taken.chunk, org, failed.fault)


def go_on(taken: Taken, org: Org) -> Settled:
    """Another worker's job, or our own of a while ago. Raises CallFailed, ClaimLost."""
    job, chunk = taken.job, taken.chunk
    road, headers = BULK_ROADS[Road(job.road)], headers_of(chunk)
    if job.status == Status.PLANNED:
        return give_back(job, chunk, Fault(NOT_PROCESSED, "Its worker stopped before it told us of the job."))
    org.sign_in()
    if job.status == Status.CREATED:
        return withdraw(job, chunk, org, Fault(NOT_PROCESSED, "Its worker stopped before the rows were in the job."))
    if job.status == Status.UPLOADED:
        road.close(org, ref(job), headers)
        step(job, Status.CLOSED)
    seen = road.look(org, ref(job), headers)
    if seen.ended:
        return harvest(job, chunk, org, seen)
    if timezone.now() - job.created_at > timedelta(seconds=settings.CRM_JOB_MOST_S):
        log.error("job takes too long id=%s state=%s, aborting it", job.org_id, seen.state)
        road.abort(org, ref(job), headers)
    look_again(job, **shown(seen))
    return Settled()


def stumbled(job: BulkJob, chunk: Chunk, org: Org, fault: Fault) -> Settled:
    """A call for the job failed: take it back where nothing was processed, else look again later."""
    log.warning("job step failed job=%s status=%s code=%s", job.pk, job.status, fault.code or fault.status)
    if job.status == Status.PLANNED:
        return give_back(job, chunk, fault)
    if job.status == Status.CREATED:
        try:
            return withdraw(job, chunk, org, fault)
        except CallFailed as failed:
            fault = failed.fault
    elif is_lost(fault):
        return conclude(job, chunk, org, Told(), Fault(NO_ANSWER, f"The org does not know the job: {fault.text}"))
    note_fault(fault)
    look_again(job, message=f"{fault.code or fault.status} {fault.text}"[:500])
    return Settled()


def is_lost(fault: Fault) -> bool:
    return is_gone(fault) or (fault.code.casefold() == "invalidjob" and "invalid job id" in fault.text.casefold())


def withdraw(job: BulkJob, chunk: Chunk, org: Org, because: Fault) -> Settled:
    """Nobody knows whether the rows are in the job: close its door, then see. Raises CallFailed."""
    road, headers = BULK_ROADS[Road(job.road)], headers_of(chunk)
    road.abort(org, ref(job), headers)
    batch_id = road.arrived(org, ref(job), headers)
    if not batch_id:
        return give_back(job, chunk, because)
    step(job, Status.UPLOADED, batch_id=batch_id)
    step(job, Status.CLOSED)
    look_again(job)
    return Settled()


def give_back(job: BulkJob, chunk: Chunk, because: Fault) -> Settled:
    """Nothing of the job was processed: its rows go back, and take another road if bulk jobs cannot be started."""
    verdict = classify(because, external_id_field=settings.CRM_EXTERNAL_ID_FIELD)
    of_bulk = verdict.kind in (FailureKind.TRANSIENT, FailureKind.UNANSWERED, FailureKind.COLLATERAL)
    if job.status == Status.CREATED:  # what it was asked to be is good: then only the way in can have been at fault
        of_bulk = verdict.kind not in (FailureKind.AUTH, FailureKind.RATE_LIMIT)
    text = f"The job could not be started: {because.code or because.status} {because.text}"
    fault = Fault(NOT_PROCESSED, text) if of_bulk else because
    outcomes = [Outcome(row, fault=fault, of_job=verdict.kind != FailureKind.PERMANENT) for row in chunk.rows]
    unsure = job.status == Status.PLANNED and (verdict.may_have_arrived or because.code == NOT_PROCESSED)
    noted = {"message": text[:500], "maybe_orphaned": unsure}
    settled = patiently(
        lambda: settle(chunk=chunk, outcomes=outcomes, job=job, noted=noted, heard=not of_bulk), chunk=chunk
    )
    if of_bulk and because.code != NOT_PROCESSED:
        note_fault(because, bulk=True)
    return settled


def harvest(job: BulkJob, chunk: Chunk, org: Org, seen: Seen) -> Settled:
    """Read what became of the rows and settle them. Raises CallFailed, ClaimLost."""
    road, target = BULK_ROADS[Road(job.road)], target_of(chunk)
    rows = [Row(candidate.external_id, {}, candidate.crm_id) for candidate in chunk.rows]
    told = road.told(org, ref(job), target, rows, headers_of(chunk))
    keys = {key_of(row, target) for row in rows}
    if seen.state == "Failed" and not seen.processed and not told.results:
        told.unprocessed = keys  # a job that could not even be read lists none of its rows
    if not told.accounts_for(keys) and job.reads + 1 < READS_MOST:
        look_again(job, reads=job.reads + 1, **shown(seen))
        return Settled()
    return conclude(job, chunk, org, told, left_over(seen), seen)


def left_over(seen: Seen) -> Fault:
    """What is to be said of the rows that the job did not come to."""
    if seen.state == "Failed":
        fault = job_fault(seen.message)
        return fault if fault.code or fault.text else Fault("", "The job failed and did not say why.")
    if seen.state == "Aborted":
        return Fault(NO_ANSWER, "The job was aborted; it may have been at this row.")
    return Fault(NOT_PROCESSED, seen.message or "The job did not come to this row.")


def conclude(job: BulkJob, chunk: Chunk, org: Org, told: Told, left: Fault, seen: Seen | None = None) -> Settled:
    """Every row's outcome by its key. Without `seen` the org knows nothing of the job. Raises ClaimLost."""
    target = target_of(chunk)
    column = column_in(left)
    unblamed = rows_without(chunk, column) if column else set()
    left = replace(left, fields=(column,)) if column else left
    outcomes = []
    for candidate in chunk.rows:
        key = key_of(Row(candidate.external_id, {}, candidate.crm_id), target)
        result = told.results.get(key)
        if key in told.contradicted:
            outcomes.append(Outcome(candidate, fault=Fault(NO_ANSWER, "The job's results contradict each other.")))
        elif result is not None:
            outcomes.append(Outcome(candidate, crm_id=result.crm_id, fault=result.fault))
        elif key not in told.unprocessed and seen is not None:
            outcomes.append(Outcome(candidate, fault=Fault(NO_ANSWER, "The job's results do not account for it.")))
        elif candidate.message_id in unblamed:
            outcomes.append(Outcome(candidate, fault=Fault(NOT_PROCESSED, f"{left.code}: {left.text}")))
        else:
            blames_all = classify(left, external_id_field=target.external_id_field).kind == FailureKind.PERMANENT
            outcomes.append(Outcome(candidate, fault=left, of_job=left.code != NO_ANSWER and not blames_all))
    usage = org.usage
    refused = sum(result.fault is not None for result in told.results.values())
    log.info(
        "job read id=%s state=%s rows=%s taken=%s refused=%s unprocessed=%s", job.org_id, seen and seen.state, job.rows,
        len(told.results) - refused, refused, len(told.unprocessed),
    )  # fmt: skip
    noted = shown(seen) if seen else {"message": left.text[:500]}
    return patiently(lambda: settle(chunk=chunk, outcomes=outcomes, job=job, noted=noted, usage=usage), chunk=chunk)


def column_in(left: Fault) -> str:
    """The one column that the org refused a whole job for, or "". It blames the rows that have it."""
    return left.text.rpartition("Field name not found :")[2].strip() if "Field name not found :" in left.text else ""


def rows_without(chunk: Chunk, column: str) -> set[int]:
    """The messages that do not name this column."""
    return {candidate.message_id for candidate, row in bodies(chunk)[0] if column not in flat(row.body)}


def ref(job: BulkJob) -> Ref:
    return Ref(job.org_id, job.batch_id)


def shown(seen: Seen) -> dict[str, str | int]:
    return {
        "org_state": seen.state,
        "processed": seen.processed,
        "failed": seen.failed,
        "retries": seen.retries,
        "message": seen.message[:500],
    }
