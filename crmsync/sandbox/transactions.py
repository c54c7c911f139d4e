"""A transaction: take the locks of all rows, look again, let the time pass that it costs, commit, then let go.

The naive way plans once and writes what it planned: by the time the locks are granted another transaction may have
changed, moved or deleted the records. So the plan made before the wait only says which locks to take.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crmsync.sandbox import journal, times
from crmsync.sandbox.automation import over_the_limits, wrapped
from crmsync.sandbox.errors import RowError, rolled_back, row_is_locked
from crmsync.sandbox.footprint import GROUPS
from crmsync.sandbox.journal import Call
from crmsync.sandbox.locks import Holder, LockKey
from crmsync.sandbox.org import Org
from crmsync.sandbox.outcomes import Outcome
from crmsync.sandbox.plan import Change, Target, View, many_found
from crmsync.sandbox.rows import Draft, Row, draft
from crmsync.sandbox.schema import SObject
from crmsync.sandbox.store import Record, Result, Writes


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


async def run(
    org: Org,
    rows: Sequence[Row],
    *,
    all_or_none: bool,
    call: Call,
    assignment_rule: str = "",
    results: Callable[[list[Outcome]], list[Result]] | None = None,
) -> list[Outcome]:
    """Write the rows in one transaction and return what became of each, in their order.

    Rows that fail fail alone, unless `all_or_none`. All its waits for locks together last the org's lock wait at most;
    then the rows that need a lock still held by somebody else fail with UNABLE_TO_LOCK_ROW. `assignment_rule`: its id,
    or "active". `results`: what is to be committed with the outcomes. Raises Stopping.
    """
    holder = Holder(org.next_number())
    started_at = times.now()
    works = [_Work(row, Outcome(row.record_id)) for row in rows]
    began = time.monotonic()
    try:
        for work in works:
            _arrive(org, work, assignment_rule)
        computed = time.monotonic() - began
        view = await _lock_and_plan(org, works, holder, all_or_none)
        held_since = time.monotonic()
        _govern(org, works)
        if all_or_none and not all(work.alive for work in works):
            for work in works:
                work.outcome.error = work.outcome.error or rolled_back()
        living = [work for work in works if work.alive]
        if living:
            computed += time.monotonic() - held_since  # is part of what the transaction takes
            await org.pause(_seconds(org, works, view, holder) - computed)
        committed_at = times.now() if living else None
        records = _stamped(org, living, view, committed_at) if committed_at else []
        line = journal.entry(
            call=call,
            holder=holder,
            objects=[row.sobject.name for row in rows],
            errors=[work.outcome.error for work in works],
            written=[work.change.after["Id"] for work in living if work.change],
            started_at=started_at,
            committed_at=committed_at,
        )
        outcomes = [Outcome(error=o.error) if o.error and o.created else o for o in (work.outcome for work in works)]
        await org.store.commit(Writes(records, journal=line, results=results(outcomes) if results else []))
        org.records += sum(work.outcome.created for work in living) - sum(
            work.row.action == "delete" for work in living
        )
    finally:
        org.locks.release(holder)
    return outcomes


def _arrive(org: Org, work: _Work, assignment_rule: str) -> None:
    """Read the row and settle which record it is about, as things stand when the request comes in."""
    row = work.row
    try:
        work.draft = draft(row)
        owner = org.automation.owner_by(row.sobject.name, assignment_rule) if assignment_rule else None
        if owner is not None and row.action != "delete":
            work.draft.values["OwnerId"] = owner
        if row.key is not None:
            by, value = row.key
            found = org.store.ids_with(row.sobject, by, work.draft.values[by.name])
            if len(found) > 1:
                raise many_found(found)
            work.outcome.record_id = found[0] if found else None
            is_new = not found
            if is_new and not org.facts.upsert_revives_deleted and org.store.was_deleted(row.sobject, by, value):
                raise RowError("ENTITY_IS_DELETED", "entity is deleted")
        else:
            is_new = row.action == "insert"
        if is_new:
            if 0 < org.facts.records_most <= org.records:
                raise RowError("STORAGE_LIMIT_EXCEEDED", "storage limit exceeded")
            work.outcome.record_id = org.next_id(row.sobject)
        assert work.outcome.record_id is not None
        work.target = Target(work.outcome.record_id, is_new)
        work.outcome.created = is_new
    except RowError as error:
        work.outcome.error = error


async def _lock_and_plan(org: Org, works: list[_Work], holder: Holder, all_or_none: bool) -> View:
    """Leave every row failed or with a change that rests on what is committed and locked now; return the whole."""
    arrived = [work.outcome.error for work in works]
    view = _view_of(org, works)
    deadline = time.monotonic() + org.lock_wait
    planned = [work.outcome.error for work in works]
    while not all_or_none or all(work.alive for work in works):
        waits = len(holder.waits)
        await _take_locks(org, works, holder, deadline)
        if len(holder.waits) == waits:  # every lock was free: nothing has happened since the plan
            break
        # Rows that only the first plan refused may be good now: what stood in their way may have failed or moved.
        for work, before, after in zip(works, arrived, planned, strict=True):
            if after is not None and work.outcome.error is after:
                work.outcome.error = before
        view = _view_of(org, works)
        if all(key.name in holder.held for work in works if work.alive and work.change for key in work.change.locks):
            break
        # A record moved to another parent while we waited: begin again, in order, with the locks it needs now.
        org.locks.release(holder)
        planned = [work.outcome.error for work in works]
    return view


def _view_of(org: Org, works: list[_Work]) -> View:
    """What the records will be: the rows planned one on top of the other."""
    view = View(org.store)
    for work in works:
        _plan(org, work, view)
        if work.alive and work.change:
            view.put(work.change)
    return view


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
                work.outcome.error = _lock_error(org, key, work)


def _lock_error(org: Org, key: LockKey, work: _Work) -> RowError:
    if key.name == GROUPS:
        return RowError("UNABLE_TO_LOCK_ROW", "could not acquire lock: Group membership operation already in progress")
    error = row_is_locked(key.name if key.is_record and org.facts.lock_error_names_record else None)
    by = org.automation.locking(work.row.sobject.name, key.name)
    return wrapped(*by, key.name, work.outcome.record_id or "", error) if by else error


def _govern(org: Org, works: list[_Work]) -> None:
    """Refuse all rows when their triggers together overspend; nothing of such a transaction is saved."""
    runs = org.costs.runs((work.row.sobject, _event(work)) for work in works if work.alive)
    error = over_the_limits(runs)
    for work in works:
        if error and work.alive:
            work.outcome.error = error


def _seconds(org: Org, works: list[_Work], view: View, holder: Holder) -> float:
    """How long the transaction takes from here on, by its rows, parents, triggers and roll-ups."""
    living = [work for work in works if work.alive]
    own = {work.target.record_id for work in living if work.target}
    rolled = [each for record_id, each in view.mine.items() if record_id not in own]
    saved = [(work.row.sobject, _event(work)) for work in living] + [(sobject, "update") for sobject, _ in rolled]
    parents = sum(len(name) == 18 and name not in own for name in holder.held)
    passes = 1 if len(living) == len(works) else max(1, min(2, org.facts.partial_save_passes))
    return org.costs.seconds(len(living), parents, org.costs.runs(saved), rolled, passes)


def _event(work: _Work) -> str:
    return "delete" if work.row.action == "delete" else "insert" if work.target and work.target.is_new else "update"


def _stamped(org: Org, living: list[_Work], view: View, at: str) -> list[tuple[SObject, Record]]:
    """The records as they are saved; a parent that only rolls up keeps the name and time of its last change by a
    person."""
    named = {"LastModifiedDate": at, "LastModifiedById": org.integration_user, "SystemModstamp": at}
    changed = {work.target.record_id: work.target.is_new for work in living if work.target}
    for work in living:
        if work.target and work.target.is_new:
            changed[work.target.record_id] = True
    records = []
    for record_id, (sobject, record) in view.mine.items():
        stamps = named if record_id in changed else {"SystemModstamp": at}
        if changed.get(record_id):
            stamps = {**stamps, "CreatedDate": at, "CreatedById": org.integration_user}
        records.append((sobject, {**record, **stamps}))
    return records
