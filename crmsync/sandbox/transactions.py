"""A transaction: take the locks of all rows, look again, let the time pass that it costs, commit, then let go.

The naive way plans once and writes what it planned: by the time the locks are granted another transaction may have
changed, moved or deleted the records. So the plan made before the wait only says which locks to take.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from crmsync.sandbox import journal, times
from crmsync.sandbox.errors import RowError, rolled_back, row_is_locked
from crmsync.sandbox.journal import Call
from crmsync.sandbox.locks import Holder, LockKey
from crmsync.sandbox.org import Org
from crmsync.sandbox.plan import Change, Target, View, many_found
from crmsync.sandbox.rows import Draft, Row, draft
from crmsync.sandbox.schema import SObject
from crmsync.sandbox.store import Record, Writes


@dataclass
class Outcome:
    """What became of one row: its id, whether it was made, and why it failed if it did."""

    record_id: str | None = None
    created: bool = False
    error: RowError | None = None


@dataclass
class _Work:
    row: Row
    outcome: Outcome
    draft: Draft | None = None
    target: Target | None = None
    change: Change | None = None

    @property
    def alive(self) -> bool:
        return self.outcome.error is None


async def run(org: Org, rows: Sequence[Row], *, all_or_none: bool, call: Call) -> list[Outcome]:
    """Write the rows in one transaction and return what became of each, in their order.

    Rows that fail fail alone, unless `all_or_none`. All its waits for locks together last the org's lock wait at most;
    then the rows that need a lock still held by somebody else fail with UNABLE_TO_LOCK_ROW. Raises Stopping.
    """
    holder = Holder(org.next_number())
    started_at = times.now()
    works = [_Work(row, Outcome(row.record_id)) for row in rows]
    try:
        for work in works:
            _arrive(org, work)
        await _lock_and_plan(org, works, holder, all_or_none)
        if all_or_none and not all(work.alive for work in works):
            for work in works:
                work.outcome.error = work.outcome.error or rolled_back()
        living = [work for work in works if work.alive]
        if living:
            await org.pause(org.cost(len(living)))
        committed_at = times.now() if living else None
        records = [_stamped(org, work, committed_at) for work in living if committed_at]
        line = journal.entry(
            call=call,
            holder=holder,
            objects=[row.sobject.name for row in rows],
            errors=[work.outcome.error for work in works],
            written=[record["Id"] for _, record in records],
            started_at=started_at,
            committed_at=committed_at,
        )
        await org.store.commit(Writes(records, journal=line))
    finally:
        org.locks.release(holder)
    return [Outcome(error=o.error) if o.error and o.created else o for o in (work.outcome for work in works)]


def _arrive(org: Org, work: _Work) -> None:
    """Read the row and settle which record it is about, as things stand when the request comes in."""
    row = work.row
    try:
        work.draft = draft(row)
        if row.key is not None:
            by, value = row.key
            found = org.store.ids_with(row.sobject, by, work.draft.values[by.name])
            if len(found) > 1:
                raise many_found(found)
            work.outcome.record_id = found[0] if found else None
            is_new = not found
        else:
            is_new = row.action == "insert"
        if is_new:
            work.outcome.record_id = org.next_id(row.sobject)
        assert work.outcome.record_id is not None
        work.target = Target(work.outcome.record_id, is_new)
        work.outcome.created = is_new
    except RowError as error:
        work.outcome.error = error


async def _lock_and_plan(org: Org, works: list[_Work], holder: Holder, all_or_none: bool) -> None:
    """Leave every row either failed or with a change that rests on what is committed and locked now."""
    deadline = time.monotonic() + org.lock_wait
    for work in works:
        _plan(org, work, View(org.store))
    while not all_or_none or all(work.alive for work in works):
        await _take_locks(org, works, holder, deadline)
        view = View(org.store)
        for work in works:
            _plan(org, work, view)
            if work.alive and work.change:
                view.put(work.change)
        if all(key.name in holder.held for work in works if work.alive and work.change for key in work.change.locks):
            return
        # A record moved to another parent while we waited: begin again, in order, with the locks it needs now.
        org.locks.release(holder)


def _plan(org: Org, work: _Work, view: View) -> None:
    if work.alive and work.draft and work.target:
        try:
            work.change = org.planner.plan(work.row, work.draft, work.target, view)
        except RowError as error:
            work.outcome.error = error


async def _take_locks(org: Org, works: list[_Work], holder: Holder, deadline: float) -> None:
    needed_by: dict[LockKey, list[_Work]] = {}
    for work in works:
        if work.alive and work.change:
            for key in work.change.locks:
                needed_by.setdefault(key, []).append(work)
    for key in sorted(needed_by):
        needing = [work for work in needed_by[key] if work.alive]
        if needing and not await org.locks.acquire(key, holder, deadline):
            for work in needing:
                work.outcome.error = row_is_locked(key.name if key.is_record else None)


def _stamped(org: Org, work: _Work, at: str) -> tuple[SObject, Record]:
    assert work.change is not None
    stamps = {"LastModifiedDate": at, "LastModifiedById": org.integration_user, "SystemModstamp": at}
    if work.target and work.target.is_new:
        stamps |= {"CreatedDate": at, "CreatedById": org.integration_user}
    return work.row.sobject, {**work.change.after, **stamps}
