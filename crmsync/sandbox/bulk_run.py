"""Works bulk jobs off: batches on a few workers, 200 rows to a transaction, with Salesforce's rules of trying again.

Bulk API guide v66: the rows of a batch are saved in chunks of 200, each a transaction of its own. A row whose lock is
not to be had is marked failed and not tried again; when that happens to more than 100 rows of a batch, the rest of the
batch goes back into the queue, at most 10 times (2.0: 20 times), then the batch fails. A batch that takes too long goes
back too. Serial jobs of 1.0 run one batch at a time, all of them together, beside the parallel ones.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from crmsync.sandbox import transactions
from crmsync.sandbox.bulk_jobs import Batch, Job, results_text
from crmsync.sandbox.bulk_uploads import ACTIONS, load
from crmsync.sandbox.csv_text import BadCsv
from crmsync.sandbox.errors import RowError, Stopping
from crmsync.sandbox.org import Org
from crmsync.sandbox.outcomes import Outcome
from crmsync.sandbox.store import Result, Writes

CHUNK = 200
PART = 10_000  # Bulk API guide v66: 2.0 makes an internal batch of every 10,000 rows

_log = logging.getLogger(__name__)


@dataclass
class Part:
    """Rows of a batch from `first` to before `end`, saved one chunk after another by one worker."""

    job: Job
    batch: Batch
    first: int
    end: int
    retries: int = 0
    is_failed: bool = False
    message: str = ""

    def left(self) -> list[list[int]]:
        """The places of the rows that were not processed, in chunks."""
        places = [place for place in range(self.first, self.end) if self.batch.results[place] is None]
        return [places[at : at + CHUNK] for at in range(0, len(places), CHUNK)]


class Runner:
    """The workers. One is made for an org; `start` puts a batch to work and returns at once."""

    def __init__(self, org: Org) -> None:
        self._org = org
        self._jobs = org.jobs
        self._slots: dict[tuple[str, int], asyncio.Semaphore] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, job: Job, batch: Batch) -> None:
        size = PART if job.api == "2" else max(1, len(batch.rows))
        parts = [Part(job, batch, at, min(at + size, len(batch.rows))) for at in range(0, len(batch.rows), size)]
        task = asyncio.create_task(self._work(job, batch, parts))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def resume(self) -> None:
        """Read all batches again, and put those to work that a stop of the org interrupted."""
        for batch in list(self._jobs.batches.values()):
            job = self._jobs.jobs.get(batch.job_id)
            if job is None or job.operation not in ACTIONS:
                continue
            with suppress(BadCsv):  # then the job has failed already
                load(self._jobs, job, batch)
                if (
                    batch.state in ("Queued", "InProgress")
                    and not job.is_ended
                    and (job.api == "1" or job.state != "Open")
                ):
                    self.start(job, batch)

    async def cancel_all(self) -> None:
        """Stop all work where it is, for a reset of the org."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self, job: Job, batch: Batch, parts: list[Part]) -> None:
        with suppress(Stopping):
            try:
                began = time.monotonic()
                await asyncio.gather(*(self._finish(part) for part in parts))
                batch.total_ms = (time.monotonic() - began) * 1000
                await self._end(job, batch, parts)
            except Exception:
                _log.exception("job %s", job.id)

    async def _end(self, job: Job, batch: Batch, parts: Sequence[Part]) -> None:
        failed = [part for part in parts if part.is_failed]
        if batch.processed < len(batch.rows) and not failed:
            batch.state = "NotProcessed" if batch.processed == 0 else "Completed"  # the job was aborted
        else:
            batch.state = "Failed" if failed else "Completed"
        # A batch that went back for locks and then came through says so beside its state (public reports).
        batch.message = next((part.message for part in failed or parts if part.message), "")
        _count(job, self._jobs.batches_of(job))
        if job.api == "2" and not job.is_ended:
            job.state = "Failed" if failed else "JobComplete"
            job.message = batch.message if failed else ""
        await self._jobs.keep(job, batch)

    async def _finish(self, part: Part) -> None:
        """Pass over the part again and again until it is done, has failed, or its job was aborted."""
        facts, job = self._org.facts, part.job
        most = facts.bulk2_retries_most if job.api == "2" else facts.bulk1_retries_most
        while not part.is_failed and not job.is_ended:
            async with self._slot(job):
                if part.batch.state == "Queued":
                    part.batch.state = "InProgress"
                    if job.api == "2":
                        job.state = "InProgress"
                    await self._jobs.keep(job, part.batch)
                reason = await self._pass(part)
            if not reason or part.is_failed:
                return
            part.message = reason
            if part.retries >= most or not job.retries_allowed:
                part.is_failed = True
                return
            part.retries += 1
            part.batch.retries += 1
            _count(job, self._jobs.batches_of(job))
            await self._org.pause(facts.bulk_requeue_s * self._org.options.scale)

    async def _pass(self, part: Part) -> str:
        """Save what is left of the part. Returns "" when nothing is to be done any more, else why it goes back."""
        org, facts, job = self._org, self._org.facts, part.job
        at_once = max(1, facts.bulk2_chunks_at_once) if job.api == "2" else 1
        longest = (facts.bulk2_batch_s if job.api == "2" else facts.bulk1_batch_s) * org.options.scale
        began, chunks, lock_failures = time.monotonic(), part.left(), 0
        while chunks:
            fate = org.faults.strike_job(job.object, job.processed)
            if fate == "job_fails":
                part.is_failed, part.message = True, "InternalServerError : Unable to process job"
                return part.message
            if fate == "job_sticks":
                await org.faults.while_stuck()
            if job.is_ended:
                return ""
            now, chunks = chunks[:at_once], chunks[at_once:]
            locked = await asyncio.gather(*(self._save(part, places) for places in now))
            lock_failures += sum(locked)
            job.api_ms += (time.monotonic() - began) * 1000
            _count(job, self._jobs.batches_of(job))
            if chunks and lock_failures > facts.bulk_lock_failures_most:
                if job.api == "2":
                    return f"TooManyLockFailure : Too many lock failure {lock_failures} Trying again later."
                return (
                    f"TooManyLockFailure : Too many lock failures ({lock_failures}) while processing the current batch"
                )
            if chunks and 0 < longest < time.monotonic() - began:
                return f"InternalServerError : Retried more than {part.retries + 1} times: the batch took too long"
        return ""

    async def _save(self, part: Part, places: list[int]) -> int:
        """Save one chunk in one transaction. Returns how many of its rows could not be locked."""
        batch, org = part.batch, self._org
        rows = [batch.rows[place] for place in places]
        outcomes = {
            place: Outcome(error=row) for place, row in zip(places, rows, strict=True) if isinstance(row, RowError)
        }
        good = [place for place in places if place not in outcomes]

        def results(ran: list[Outcome]) -> list[Result]:
            outcomes.update(zip(good, ran, strict=True))
            return _runs(batch.id, places, outcomes)

        if good:
            wanted = [row for row in rows if not isinstance(row, RowError)]
            rule = part.job.assignment_rule
            await transactions.run(
                org, wanted, all_or_none=False, call=part.job.call, assignment_rule=rule, results=results
            )
        else:
            await org.store.commit(Writes(results=_runs(batch.id, places, outcomes)))
        for place in places:
            batch.note(place, outcomes[place])
        return sum(is_locked(outcome.error) for outcome in outcomes.values())

    def _slot(self, job: Job) -> asyncio.Semaphore:
        facts = self._org.facts
        if job.serial:
            kind, size = "serial", 1
        else:
            kind, size = job.api, max(1, facts.bulk2_workers if job.api == "2" else facts.bulk1_workers)
        return self._slots.setdefault((kind, size), asyncio.Semaphore(size))


def is_locked(error: RowError | None) -> bool:
    """Whether the row failed for a lock, its own or one that a trigger wanted."""
    return error is not None and "UNABLE_TO_LOCK_ROW" in error.code + error.message


def _runs(batch_id: str, places: list[int], outcomes: dict[int, Outcome]) -> list[Result]:
    """The outcomes as runs of neighbouring places."""
    found: list[Result] = []
    start = 0
    for at in range(1, len(places) + 1):
        if at == len(places) or places[at] != places[at - 1] + 1:
            run = places[start:at]
            found.append(Result(batch_id, run[0], results_text([outcomes[place] for place in run])))
            start = at
    return found


def _count(job: Job, batches: Iterable[Batch]) -> None:
    job.processed = job.failed = job.retries = 0
    for batch in batches:
        job.processed += batch.processed
        job.failed += batch.failed
        job.retries += batch.retries
