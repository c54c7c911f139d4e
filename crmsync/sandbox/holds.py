"""Locks held from outside, as if a user of the org were saving the same records."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

from crmsync.sandbox import journal, times
from crmsync.sandbox.journal import Call, Caller
from crmsync.sandbox.locks import Holder, LockKey, LockTable
from crmsync.sandbox.store import Store, Writes


@dataclass
class Hold:
    """One hold; its number is that of a transaction. `expires_at` is a time.monotonic second, None for no end."""

    holder: Holder
    since: str
    expires_at: float | None
    timer: asyncio.TimerHandle | None = None


class Holds:
    """The holds in force. Call from the event loop only."""

    def __init__(self, locks: LockTable, store: Store) -> None:
        self._locks = locks
        self._store = store
        self._holds: dict[int, Hold] = {}
        self._releasing: set[asyncio.Task[bool]] = set()

    async def take(self, number: int, keys: Iterable[LockKey], deadline: float, seconds: float | None) -> bool:
        """Take all locks by the deadline (time.monotonic) and keep them for `seconds`. False: none was taken."""
        holder, since = Holder(number), times.now()
        for key in sorted(set(keys)):
            if not await self._locks.acquire(key, holder, deadline):
                self._locks.release(holder)
                return False
        hold = Hold(holder, since, None)
        if seconds is not None:
            hold.expires_at = time.monotonic() + seconds
            hold.timer = asyncio.get_running_loop().call_later(seconds, self._expire, number)
        self._holds[number] = hold
        return True

    async def release(self, number: int) -> bool:
        """End a hold; it then has its line in the journal. False: there is none of that number."""
        hold = self._holds.pop(number, None)
        if hold is None:
            return False
        if hold.timer:
            hold.timer.cancel()
        line = journal.entry(
            call=Call(Caller("", "", "outside"), "HOLD", "/__admin/locks"),
            holder=hold.holder,
            objects=[],
            errors=[],
            written=[],
            started_at=hold.since,
            committed_at=None,
        )
        self._locks.release(hold.holder)
        await self._store.commit(Writes(journal=line))
        return True

    async def release_all(self) -> None:
        for number in list(self._holds):
            await self.release(number)

    def listed(self) -> list[dict[str, object]]:
        now = time.monotonic()
        return [
            {
                "id": number,
                "locks": sorted(hold.holder.held),
                "since": hold.since,
                "seconds_left": None if hold.expires_at is None else round(max(0.0, hold.expires_at - now), 3),
            }
            for number, hold in sorted(self._holds.items())
        ]

    def _expire(self, number: int) -> None:
        task = asyncio.create_task(self.release(number))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)
