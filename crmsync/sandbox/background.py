"""Users and other systems that save the same records at random, so that even a perfect client has to wait."""

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from crmsync.sandbox import journal, times
from crmsync.sandbox.errors import Stopping
from crmsync.sandbox.journal import Call, Caller
from crmsync.sandbox.locks import Holder
from crmsync.sandbox.org import Org
from crmsync.sandbox.schema import SObject
from crmsync.sandbox.store import Writes


@dataclass(frozen=True)
class Habit:
    """`count` people who each save a random record of the object again and again: hold `hold_ms`, then rest `rest_ms`.

    Both durations are means of exponential ones and multiplied by the org's scale. With `ids` only those records.
    """

    object: str
    count: int = 1
    hold_ms: float = 200.0
    rest_ms: float = 1000.0
    seed: int = 0
    ids: tuple[str, ...] = ()


class Writers:
    """The people at work. Call from the event loop only."""

    def __init__(self, org: Org) -> None:
        self._org = org
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, habit: Habit) -> None:
        sobject = self._org.schema.objects[habit.object]
        for number in range(habit.count):
            chance = random.Random(f"{habit.seed}/{number}")
            self._tasks.append(asyncio.create_task(self._work(habit, sobject, chance)))

    async def stop(self) -> int:
        """Send all home; how many there were."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(tasks)

    async def _work(self, habit: Habit, sobject: SObject, chance: random.Random) -> None:
        scale = self._org.options.scale / 1000
        with suppress(Stopping):
            while True:
                await self._org.pause(0.001 + chance.expovariate(1) * habit.rest_ms * scale)
                ids: Sequence[str] = habit.ids or self._org.store.ids_of(sobject)
                if ids:
                    await self._save(chance.choice(ids), chance.expovariate(1) * habit.hold_ms * scale)

    async def _save(self, record_id: str, seconds: float) -> None:
        """Lock one record for a while and leave a line in the journal."""
        org = self._org
        holder, since = Holder(org.next_number()), times.now()
        try:
            if await org.locks.acquire(org.planner.key(record_id), holder, time.monotonic() + org.lock_wait):
                await org.pause(seconds)
                call = Call(Caller("", "", "outside"), "SAVE", "/__admin/writers")
                line = journal.entry(
                    call=call, holder=holder, objects=[], errors=[], written=[], started_at=since, committed_at=None
                )
                await org.store.commit(Writes(journal=line))
        finally:
            org.locks.release(holder)
