"""The org itself: its objects, its records, its locks, and what its work costs. One of it exists in a process."""

import asyncio
from contextlib import suppress

from crmsync.sandbox import ids, times
from crmsync.sandbox import schema as schemas
from crmsync.sandbox.cursors import Cursors
from crmsync.sandbox.errors import Stopping
from crmsync.sandbox.faults import Faults
from crmsync.sandbox.holds import Holds
from crmsync.sandbox.locks import LockTable
from crmsync.sandbox.options import Options
from crmsync.sandbox.plan import Planner
from crmsync.sandbox.rows import Row, draft
from crmsync.sandbox.schema import SObject
from crmsync.sandbox.sessions import Sessions
from crmsync.sandbox.store import Record, Store, Writes

LOCK_WAIT_S = 10.0  # "Apex Locking Statements": a lock request waits at most 10 seconds


class Org:
    """Everything a request needs. Make it inside the event loop, then `open` it; `stop` and `close` it in the end."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.schema = schemas.load()
        self.store = Store(options.data, self.schema)
        self.locks = LockTable()
        self.sessions = Sessions(self.store, options)
        self.faults = Faults()
        self.cursors = Cursors()
        self.holds = Holds(self.locks, self.store)
        self.lock_wait = LOCK_WAIT_S * options.scale
        self.calls = 0
        self.integration_user = ids.make("005", 1)
        self.planner = Planner(self.schema, self.integration_user)
        self._stopping = asyncio.Event()
        self._last_number = self.store.highest_transaction()
        self._last_ids: dict[str, int] = {}

    async def open(self) -> None:
        """Give a new org its first users. An org that has some is left as it is."""
        if self.store.highest_id(self.schema.objects["User"]) is None:
            await self.store.commit(Writes(self._seed_records()))

    async def reset(self) -> None:
        """Back to the first users: records, journal, holds, faults, stall are gone. Call it while nobody writes."""
        self.faults.clear()
        self.faults.stall(0)
        await self.holds.release_all()
        await self.store.commit(Writes(self._seed_records(), wipe=True))

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

    def cost(self, rows: int) -> float:
        """Seconds that a transaction over this many rows holds its locks."""
        return (self.options.transaction_ms + self.options.row_ms * rows) * self.options.scale / 1000

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
