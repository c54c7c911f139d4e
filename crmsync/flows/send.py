"""Carry one chunk to the org by its road: in one call, settled in the same breath, or as a job that goes on by itself.

Before `begin` the reaper gives everything back; after it the rows are sent again once the call can no longer commit, or
their job is carried on. No transaction is open while the CRM is called.
"""

import logging
import random
import time
from collections.abc import Sequence

from django.conf import settings

from crmsync.bulk import record_of
from crmsync.chunks import Candidate
from crmsync.direct import RowResult, identified, write
from crmsync.errors import CallFailed, Fault
from crmsync.flows.adopt import adopted, follow_converted
from crmsync.flows.bodies import Pair, bodies, headers_of, target_of
from crmsync.flows.jobs import BULK_ROADS, start
from crmsync.flows.settling import leave_early, patiently
from crmsync.gateway import Org
from crmsync.moves.begin import begin, begin_job, give_back, narrow, release, still_wanted
from crmsync.moves.claim import Chunk
from crmsync.moves.outcomes import Outcome
from crmsync.moves.pace import has_place
from crmsync.moves.piles import any_chain_is_open
from crmsync.moves.settle import Settled, settle
from crmsync.roads import MOST, Road

log = logging.getLogger(__name__)

# Of a call's time, for finding out ids and waiting for a place; the task's own time is that much longer (checks.py).
READY_SHARE = 0.4
LOOK_S = 0.03  # between two looks for a place
WANTED_S = 0.3  # between two looks whether the chunk is still wanted
YIELD_S = 0.5  # as long as it takes to settle a chunk and claim the next of its pile, and some more
LOOK_UPS_MOST = 2_000


def send(*, chunk: Chunk, org: Org) -> Settled:
    """Sign in, begin, and call or start a job. Raises ClaimLost."""
    try:
        org.sign_in()
        ready_by = time.monotonic() + settings.CRM_TIMEOUT_S * READY_SHARE
        with org.until(ready_by):
            elsewhere = adopted(org, chunk.rows)
            follow_converted(org, chunk.rows)
            if elsewhere:
                return set_aside(chunk, elsewhere)
            rows, known = prepared(chunk, org)
    except CallFailed as failed:
        return Settled(put_back=release(chunk=chunk, because=failed.fault, dice=random.random()))
    if Road(chunk.road).is_bulk and rows and (settled := by_job(chunk, org, rows, known, ready_by=ready_by)):
        return settled
    return by_call(chunk, org, rows[: MOST[Road.COLLECTIONS]], known, ready_by=ready_by)


def set_aside(chunk: Chunk, elsewhere: set[int]) -> Settled:
    """Give the chunk back: some of its rows go to other records, perhaps under other lanes, and are claimed anew."""
    log.info("chunk given back rows=%s adopted=%s token=%s", len(chunk.rows), len(elsewhere), chunk.token)
    return Settled(put_back=give_back(chunk=chunk))


def prepared(chunk: Chunk, org: Org) -> tuple[list[Pair], list[Outcome]]:
    """The rows with what names them in the org, and the outcomes that need no call. Raises CallFailed.

    Where ids are needed and many are unknown, only the first of those rows come along.
    """
    rows, known = bodies(chunk)
    if chunk.operation != "upsert":
        late = {row.external_id for _, row in [pair for pair in rows if not pair[1].crm_id][LOOK_UPS_MOST:]}
        rows = [(candidate, row) for candidate, row in rows if row.external_id not in late]
    named, results = identified(org, target_of(chunk), [row for _, row in rows])
    by_key = {row.external_id: row for row in named}
    known += [outcome_of(candidate, results[row.external_id]) for candidate, row in rows if row.external_id in results]
    return [(candidate, by_key[row.external_id]) for candidate, row in rows if row.external_id in by_key], known


def by_call(chunk: Chunk, org: Org, rows: Sequence[Pair], known: Sequence[Outcome], *, ready_by: float) -> Settled:
    chunk = narrow(chunk=chunk, to=[*(candidate for candidate, _ in rows), *(outcome.row for outcome in known)])
    not_after = began(chunk, ready_by=ready_by)
    if not_after is None:
        return Settled(put_back=give_back(chunk=chunk))
    whole_request: Fault | None = None
    outcomes = list(known)
    if rows:
        try:
            with org.until(not_after):
                results = write(org, target_of(chunk), [row for _, row in rows], headers=headers_of(chunk))
            outcomes += [outcome_of(row, result) for (row, _), result in zip(rows, results, strict=True)]
            if chunk.is_mass and not chunk.is_of_a_chain and all(result.fault is None for result in results):
                leave_early(chunk)
        except CallFailed as failed:
            whole_request = failed.fault
            outcomes += [Outcome(row=candidate, fault=failed.fault) for candidate, _ in rows]
    usage = org.usage
    return patiently(
        lambda: settle(chunk=chunk, outcomes=outcomes, whole_request=whole_request, usage=usage), chunk=chunk
    )


def began(chunk: Chunk, *, ready_by: float) -> float | None:
    """Begin as soon as there is a place: the time (time.monotonic) by which the call has ended, or None where there was
    none until `ready_by`. Raises ClaimLost.

    That time counts from before `begin`, as the reaper's does: a worker that was stopped meanwhile sends nothing stale.
    """
    while gets_a_place(chunk, by=ready_by):
        not_after = time.monotonic() + settings.CRM_TIMEOUT_S
        if begin(chunk=chunk):
            return not_after
    return None


def gets_a_place(chunk: Chunk, *, by: float) -> bool:
    """Wait for a place, if the chunk needs one. False: there was none by then, or it is not wanted any more.

    A long pile that has just become free is let go first, for its chunks can only follow one another.
    """
    if not chunk.is_mass:
        return True
    ask_at, take_at = 0.0, by
    while True:
        now = time.monotonic()
        is_free = has_place(token=chunk.token)
        if is_free or now >= ask_at:
            ask_at = now + WANTED_S
            if not still_wanted(chunk=chunk):
                return False
        if is_free:
            take_at = min(take_at, now + YIELD_S)
            if now >= take_at or chunk.is_of_a_chain or not any_chain_is_open():
                return True
        elif now >= by:
            return False
        time.sleep(LOOK_S)


def by_job(
    chunk: Chunk, org: Org, rows: Sequence[Pair], known: Sequence[Outcome], *, ready_by: float
) -> Settled | None:
    """What could be settled at once; None where a job can carry none of the rows."""
    road, target = BULK_ROADS[Road(chunk.road)], target_of(chunk)
    records = {candidate.message_id: record_of(row, target) for candidate, row in rows}
    fitting = [(candidate, row) for candidate, row in rows if road.fits(records[candidate.message_id])]
    unfit = [candidate for candidate, _ in rows if not road.fits(records[candidate.message_id])]
    data = road.encode([records[candidate.message_id] for candidate, _ in fitting])
    while len(data) > road.BYTES_MOST and fitting:
        fitting = fitting[: int(len(fitting) * 0.9 * road.BYTES_MOST / len(data))]
        data = road.encode([records[candidate.message_id] for candidate, _ in fitting])
    if not fitting:
        return None
    sent = [candidate for candidate, _ in fitting]
    chunk = narrow(chunk=chunk, to=[*sent, *(outcome.row for outcome in known)], urgent=unfit)
    ids = {candidate.record_id: row.crm_id for candidate, row in fitting if row.crm_id}
    may_begin = gets_a_place(chunk, by=ready_by)
    not_after = time.monotonic() + settings.CRM_TIMEOUT_S
    begun = begin_job(chunk=chunk, sent=sent, known=known, ids=ids) if may_begin else None
    if begun is None:
        return Settled(put_back=give_back(chunk=chunk))
    job, settled = begun
    with org.until(not_after):
        started = start(job=job, sent=sent, org=org, data=data)
    return Settled(
        settled.delivered + started.delivered, settled.put_back + started.put_back, settled.dead + started.dead
    )


def outcome_of(row: Candidate, result: RowResult) -> Outcome:
    return Outcome(row=row, crm_id=result.crm_id, fault=result.fault)
