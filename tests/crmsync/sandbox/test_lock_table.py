"""The lock table by itself, without a process around it."""

import asyncio
import time

import pytest

from crmsync.sandbox.errors import Stopping
from crmsync.sandbox.locks import Holder, LockKey, LockTable

A, B = LockKey(0, "A"), LockKey(1, "B")


def soon() -> float:
    return time.monotonic() + 0.05


def late() -> float:
    return time.monotonic() + 10


async def take_crosswise(*, sort: bool) -> list[bool]:
    """Two transactions want the same two locks, named in opposite order. Whether each got both."""
    table = LockTable()
    first_taken = asyncio.Barrier(2)

    async def run(number: int, keys: list[LockKey]) -> bool:
        holder = Holder(number)
        one, two = sorted(keys) if sort else keys
        taking = asyncio.create_task(table.acquire(one, holder, late()))
        if not sort:
            await taking
            await first_taken.wait()
        got = await taking and await table.acquire(two, holder, soon())
        table.release(holder)
        return got

    return await asyncio.gather(run(1, [A, B]), run(2, [B, A]))


def test_negative_control_locks_taken_in_the_order_named_do_deadlock() -> None:
    assert not all(asyncio.run(take_crosswise(sort=False)))


def test_locks_taken_in_key_order_do_not_deadlock() -> None:
    assert asyncio.run(take_crosswise(sort=True)) == [True, True]


def test_whoever_gives_up_leaves_the_queue_in_order() -> None:
    async def run() -> list[int]:
        table, served = LockTable(), []
        first = Holder(1)
        assert await table.acquire(A, first, late())

        async def wait(number: int, deadline: float) -> None:
            holder = Holder(number)
            if await table.acquire(A, holder, deadline):
                served.append(number)
                table.release(holder)

        waiting = [asyncio.create_task(wait(n, soon() if n == 3 else late())) for n in (2, 3, 4)]
        await waiting[1]
        assert table.snapshot()[0]["waiting"] == [2, 4]
        table.release(first)
        await asyncio.gather(*waiting)
        assert table.snapshot() == []
        return served

    assert asyncio.run(run()) == [2, 4]


def test_a_waiter_that_is_cancelled_is_never_given_the_lock() -> None:
    async def run() -> None:
        table, first, second = LockTable(), Holder(1), Holder(2)
        await table.acquire(A, first, late())
        waiting = asyncio.create_task(table.acquire(A, second, late()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        table.release(first)
        assert table.snapshot() == []

    asyncio.run(run())


def test_a_stop_sends_everybody_away_who_waits() -> None:
    async def run() -> None:
        table, first = LockTable(), Holder(1)
        await table.acquire(A, first, late())
        waiting = [asyncio.create_task(table.acquire(A, Holder(number), late())) for number in (2, 3)]
        await asyncio.sleep(0)
        table.stop()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, Stopping) for result in results)
        table.release(first)

    asyncio.run(run())
