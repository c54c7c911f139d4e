"""The org itself: its objects, its records, its locks, and what its work costs. One of it exists in a process."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from crmsync.sandbox import facts, ids, times
from crmsync.sandbox import schema as schemas
from crmsync.sandbox.automation import Automation
from crmsync.sandbox.bulk_jobs import Jobs
from crmsync.sandbox.costs import Costs
from crmsync.sandbox.cursors import Cursors
from crmsync.sandbox.errors import CallError, Stopping
from crmsync.sandbox.faults import Faults
from crmsync.sandbox.footprint import Footprint
from crmsync.sandbox.holds import Holds
from crmsync.sandbox.locks import LockTable
from crmsync.sandbox.options import Options
from crmsync.sandbox.plan import Planner
from crmsync.sandbox.rows import Row, draft
from crmsync.sandbox.schema import SObject
from crmsync.sandbox.sessions import Sessions
from crmsync.sandbox.store import Record, Store, Writes

if TYPE_CHECKING:
    from crmsync.sandbox.background import Writers
    from crmsync.sandbox.bulk_run import Runner

LOCK_WAIT_S = 10.0  # "Apex Locking Statements": a lock request waits at most 10 seconds


class Org:
    """Everything a request needs. Make it inside the event loop, then `open` it; `stop` and `close` it in the end."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.facts = facts.started_with(options.facts)
        self.schema = schemas.load(options.schema)
        self.automation = Automation(self.schema.automation, self.schema.objects)
        self.store = Store(options.data, self.schema)
        self.locks = LockTable()
        self.sessions = Sessions(self.store, options, self.facts)
        self.faults = Faults()
        self.cursors = Cursors()
        self.holds = Holds(self.locks, self.store)
        self.lock_wait = LOCK_WAIT_S * options.scale
        self.calls = 0
        self.bulk_batches = 0
        self.integration_user = ids.make("005", 1)
        self.footprint = Footprint(self.schema, self.facts, self.automation)
        self.planner = Planner(self.schema, self.footprint, self.automation, self.integration_user)
        self.costs = Costs(options, self.automation, self.schema)
        self.jobs = Jobs(self.store, self.schema)
        self.records = 0
        self.running: list[float] = []
        self._stopping = asyncio.Event()
        self._last_number = self.store.highest_transaction()
        self._last_ids: dict[str, int] = {}

    async def open(self) -> None:
        """Give a new org its first users. An org that has some is left as it is."""
        if self.store.highest_id(self.schema.objects["User"]) is None:
            await self.store.commit(Writes(self._seed_records()))
        self.records = self.store.count()

    async def reset(self) -> None:
        """Back to the first users and the settings of the start: records, jobs, journal, holds, faults, stall and what
        was built in since are gone. Call it while nobody writes."""
        await self.runner.cancel_all()
        await self.writers.stop()
        self.jobs.clear()
        self.facts.restore()
        self.automation.restore()
        self.costs.restore()
        self.sessions.restore()
        self.faults.clear()
        self.faults.stall(0)
        self.calls = self.bulk_batches = 0
        await self.holds.release_all()
        await self.store.commit(Writes(self._seed_records(), wipe=True))
        self.records = self.store.count()

    def attach(self, runner: "Runner", writers: "Writers") -> None:
        """Give the org those who work by themselves."""
        self.runner, self.writers = runner, writers

    def spend_bulk_batch(self) -> None:
        """Count a batch of either bulk API. Raises CallError when the day has no more of them."""
        if 0 < self.facts.bulk_batches_most <= self.bulk_batches:
            raise CallError(400, "ExceededQuota", "ExceededQuota : The batches of the last 24 hours are used up")
        self.bulk_batches += 1

    def check_limits(self) -> None:
        """Raises CallError when the calls of the day are used up, or too many long calls run at once."""
        self.calls += 1
        if 0 < self.facts.daily_calls_most < self.calls:
            raise CallError(403, "REQUEST_LIMIT_EXCEEDED", "TotalRequests Limit exceeded.")
        before = time.monotonic() - self.facts.long_call_s * self.options.scale
        if 0 < self.facts.long_calls_most <= sum(began <= before for began in self.running):
            text = "ConcurrentRequests (Concurrent API Requests) Limit exceeded."
            raise CallError(403, "REQUEST_LIMIT_EXCEEDED", text)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """While the block runs, a call is in progress."""
        began = time.monotonic()
        self.running.append(began)
        try:
            yield
        finally:
            self.running.remove(began)

    def active_user(self, username: str) -> str | None:
        """The id of the active user of this name."""
        users = self.schema.objects["User"]
        for user in self.store.ids_with(users, users.fields["Username"], username):
            record = self.store.get(users, user)
            if record and record["IsActive"]:
                return user
        return None

    def user_with(self, username: str, password: str) -> str | None:
        """The id of the active user who has this password, with the security token behind it or, as from a trusted
        network, without."""
        good = (self.options.password, self.options.password + self.options.security_token)
        return self.active_user(username) if password in good else None

    def next_number(self) -> int:
        """The number of a new transaction or hold from outside. A restart goes on after the highest in the journal."""
        self._last_number += 1
        return self._last_number

    def next_id(self, sobject: SObject) -> str:
        """A new record id."""
        if sobject.name not in self._last_ids:
            highest = self.store.highest_id(sobject)
            self._last_ids[sobject.name] = ids.number_of(highest) if highest else 0
        self._last_ids[sobject.name] += 1
        return ids.make(sobject.prefix, self._last_ids[sobject.name])

    async def pause(self, seconds: float) -> None:
        """Let time pass. Raises Stopping as soon as the org stops."""
        if seconds > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), seconds)
        if self._stopping.is_set():
            raise Stopping

    def stop(self) -> None:
        """Send everybody who waits away."""
        self._stopping.set()
        self.locks.stop()
        self.faults.stall(0)

    async def close(self) -> None:
        await self.store.close()

    def _seed_records(self) -> list[tuple[SObject, Record]]:
        at = times.now()
        records = []
        for name, rows in schemas.seed().items():
            sobject = self.schema.objects[name]
            for number, fields in enumerate(rows, start=1):
                record_id = ids.make(sobject.prefix, number)
                stamps = {"CreatedDate": at, "LastModifiedDate": at, "SystemModstamp": at}
                authors = {"CreatedById": self.integration_user, "LastModifiedById": self.integration_user}
                values = draft(Row("insert", sobject, fields)).values
                records.append((sobject, {**self.planner.complete(sobject, record_id, values), **stamps, **authors}))
        return records
