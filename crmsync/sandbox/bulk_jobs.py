"""The bulk jobs of the org: what was asked and uploaded, how far each batch has come, what became of each row.

A job is on disk before its creation is answered, and the result of a row is committed with the row itself; after a
restart every job goes on where it was.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from crmsync.sandbox import ids, times
from crmsync.sandbox.errors import RowError
from crmsync.sandbox.journal import Call, Caller
from crmsync.sandbox.outcomes import Outcome
from crmsync.sandbox.rows import Row
from crmsync.sandbox.schema import Schema, SObject
from crmsync.sandbox.store import Batched, Store, Writes

State = Literal["Open", "UploadComplete", "InProgress", "JobComplete", "Closed", "Aborted", "Failed"]
BatchState = Literal["Queued", "InProgress", "Completed", "Failed", "NotProcessed"]

ENDED = ("JobComplete", "Aborted", "Failed")
JOB_PREFIX, BATCH_PREFIX = "750", "751"


@dataclass
class Job:
    """One job. `api` is "1", "2" or "query" (2.0). Times are stamps, durations milliseconds."""

    id: str
    api: str
    operation: str
    object: str
    version: int
    client: str
    path: str
    created_by: str
    created_at: str
    key: str = ""
    content_type: str = "CSV"
    delimiter: str = "COMMA"
    line_ending: str = "LF"
    serial: bool = False
    assignment_rule: str = ""
    retries_allowed: bool = True
    query: str = ""
    state: State = "Open"
    modified_at: str = ""
    message: str = ""
    processed: int = 0
    failed: int = 0
    retries: int = 0
    api_ms: float = 0.0
    total_ms: float = 0.0

    @property
    def call(self) -> Call:
        return Call(Caller(self.client, self.id, ""), "BULK", self.path)

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED


@dataclass
class Batch:
    """What was uploaded at once: rows with their results. A 2.0 job has one, cut into parts of 10,000 when it is
    run."""

    id: str
    job_id: str
    created_at: str
    state: BatchState = "Queued"
    message: str = ""
    modified_at: str = ""
    retries: int = 0
    api_ms: float = 0.0
    total_ms: float = 0.0
    processed: int = 0
    failed: int = 0
    header: list[str] = field(default_factory=list)
    lines: list[list[str]] = field(default_factory=list, repr=False)
    rows: list[Row | RowError] = field(default_factory=list, repr=False)
    results: list[Outcome | None] = field(default_factory=list, repr=False)

    def note(self, place: int, outcome: Outcome) -> None:
        """Remember what became of the row at this place."""
        self.results[place] = outcome
        self.processed += 1
        self.failed += outcome.error is not None


class Jobs:
    """All jobs by id, newest last. Call from the event loop only."""

    def __init__(self, store: Store, schema: Schema) -> None:
        self._store = store
        self._schema = schema
        self.jobs: dict[str, Job] = {}
        self.batches: dict[str, Batch] = {}
        self.uploads: dict[str, bytes] = {}
        self._last = 0
        for kind, number, text, data in store.batched():
            document = json.loads(text)
            self._last = max(self._last, number)
            if kind == "job":
                self.jobs[document["id"]] = Job(**document)
            else:
                batch = Batch(**document)
                self.batches[batch.id] = batch
                self.uploads[batch.id] = data

    def next_id(self, prefix: str) -> str:
        self._last += 1
        return ids.make(prefix, self._last)

    def find(self, job_id: str, *apis: str) -> Job | None:
        full = ids.canonical(job_id)
        job = self.jobs.get(full) if full else None
        return job if job and job.api in apis else None

    def batches_of(self, job: Job) -> list[Batch]:
        return [batch for batch in self.batches.values() if batch.job_id == job.id]

    def sobject(self, job: Job) -> SObject:
        return self._schema.objects[job.object]

    async def keep(self, *kept: Job | Batch, upload: bytes | None = None) -> None:
        """Return when these are on disk as they are now; `upload` is what came with a new batch."""
        rows = []
        for each in kept:
            each.modified_at = times.now()
            kind = "job" if isinstance(each, Job) else "batch"
            (self.jobs if isinstance(each, Job) else self.batches)[each.id] = each  # type: ignore[assignment]
            if kind == "batch" and upload is not None:
                self.uploads[each.id] = upload
            rows.append(
                Batched(kind, ids.number_of(each.id), json.dumps(_plain(each)), upload if kind == "batch" else None)
            )
        await self._store.commit(Writes(batched=rows))

    def earlier_results(self, batch: Batch) -> Iterator[tuple[int, Outcome]]:
        """What the store has of the batch's rows, by place."""
        for place, text in self._store.results(batch.id):
            yield from ((place + number, outcome_from(each)) for number, each in enumerate(json.loads(text)))

    async def remove(self, job: Job) -> None:
        gone = [job.id, *(batch.id for batch in self.batches_of(job))]
        for each in gone:
            self.jobs.pop(each, None)
            self.batches.pop(each, None)
            self.uploads.pop(each, None)
        await self._store.commit(Writes(forgotten=[ids.number_of(each) for each in gone]))

    def clear(self) -> None:
        """Forget all; the store is wiped by whoever resets the org."""
        self.jobs.clear()
        self.batches.clear()
        self.uploads.clear()


def results_text(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as the store keeps them, in the transaction that made them true."""
    plain = []
    for outcome in outcomes:
        error = outcome.error and [outcome.error.code, outcome.error.message, list(outcome.error.fields)]
        plain.append([outcome.record_id, outcome.created, error])
    return json.dumps(plain)


def outcome_from(plain: Any) -> Outcome:
    record_id, created, error = plain
    return Outcome(record_id, created, RowError(*error) if error else None)


def error_text(error: RowError) -> str:
    """`CODE:message:field1, field2 --`, the form of errors in bulk results (Bulk API guide; seen in public reports)."""
    return (
        f"{error.code}:{error.message}:{', '.join(error.fields)} --"
        if error.fields
        else f"{error.code}:{error.message}:--"
    )


def _plain(each: Job | Batch) -> dict[str, Any]:
    if isinstance(each, Job):
        return asdict(each)
    memory = {"processed", "failed", "header", "lines", "rows", "results"}
    return {known.name: getattr(each, known.name) for known in fields(each) if known.name not in memory}
