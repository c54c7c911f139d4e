"""Row locks: one holder at a time, everybody else in a queue, first come first served, for a limited time.

Deadlock is excluded by order: every transaction takes its locks sorted by key, and a key sorts by the rank of its
object (parents before children) and then by id. That is the order Salesforce documents for itself ("Avoiding
Deadlocks"). A wait costs one future and no thread, so hundreds may wait.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from crmsync.sandbox.errors import Stopping


class LockKey(NamedTuple):
    """What is locked: a record's id, or a unique value that nobody else may set meanwhile. Sorts in locking order."""

    rank: int
    name: str
    is_record: bool = True


@dataclass
class Wait:
    """One wait: for which lock, how long, behind which transactions, and whether it got the lock in the end."""

    lock: str
    waited_ms: float
    behind: list[int]
    granted: bool


@dataclass(eq=False)
class Holder:
    """Whoever holds or wants locks: a transaction by its number. `held_ms` runs from its first lock."""

    number: int
    held: set[str] = field(default_factory=set)
    waits: list[Wait] = field(default_factory=list)
    first_lock_at: float | None = None

    @property
    def held_ms(self) -> float:
        return 0.0 if self.first_lock_at is None else (time.monotonic() - self.first_lock_at) * 1000

    @property
    def waited_ms(self) -> float:
        return sum(wait.waited_ms for wait in self.waits)


@dataclass
class _Lock:
    holder: Holder
    since: float
    queue: deque[tuple[Holder, "asyncio.Future[None]"]] = field(default_factory=deque)


class LockTable:
    """All locks of the org that somebody holds. Call from the event loop only."""

    def __init__(self) -> None:
        self._locks: dict[str, _Lock] = {}
        self._stopping = False

    async def acquire(self, key: LockKey, holder: Holder, deadline: float) -> bool:
        """Take the lock, or queue for it until `deadline` (time.monotonic seconds).

        True: held. False: somebody kept it past the deadline. Raises Stopping when the org stops meanwhile. A lock that
        is free is taken even after the deadline.
        """
        lock = self._locks.get(key.name)
        if lock is None:
            self._locks[key.name] = _Lock(holder, time.monotonic())
            self._note(key.name, holder)
            return True
        if self._stopping:
            raise Stopping
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        behind = [lock.holder.number, *(waiting.number for waiting, _ in lock.queue)]
        lock.queue.append((holder, turn))
        began = time.monotonic()
        try:
            await asyncio.wait({turn}, timeout=max(0.0, deadline - began))
        finally:
            if not turn.done():
                lock.queue.remove((holder, turn))
        granted = turn.done()
        holder.waits.append(Wait(key.name, round((time.monotonic() - began) * 1000, 1), behind, granted))
        if granted:
            turn.result()
        return granted

    def release(self, holder: Holder) -> None:
        """Give up everything the holder has; each lock goes to whoever has waited longest for it."""
        for name in sorted(holder.held):
            lock = self._locks[name]
            if lock.queue:
                lock.holder, turn = lock.queue.popleft()
                lock.since = time.monotonic()
                self._note(name, lock.holder)
                turn.set_result(None)
            else:
                del self._locks[name]
        holder.held.clear()

    def stop(self) -> None:
        """Send everybody who waits away with Stopping."""
        self._stopping = True
        for lock in self._locks.values():
            for _, turn in lock.queue:
                if not turn.done():
                    turn.set_exception(Stopping())
            lock.queue.clear()

    def snapshot(self) -> list[dict[str, object]]:
        """Every lock that is held now: its name, the holder's number, since when (ms), and who waits in which order."""
        now = time.monotonic()
        return [
            {
                "lock": name,
                "holder": lock.holder.number,
                "held_ms": round((now - lock.since) * 1000, 1),
                "waiting": [waiting.number for waiting, _ in lock.queue],
            }
            for name, lock in sorted(self._locks.items())
        ]

    @staticmethod
    def _note(name: str, holder: Holder) -> None:
        holder.held.add(name)
        if holder.first_lock_at is None:
            holder.first_lock_at = time.monotonic()
