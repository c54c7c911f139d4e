"""A task queue that survives the death of whoever was reading it.

django-q2's workers take turns reading one pipe under a semaphore. A worker that is killed while it waits there keeps
the semaphore for ever, and the whole cluster stands still while it looks healthy (django-q2 issue 23). Here the lock is
a POSIX record lock, which the kernel frees when its holder dies. What is left are windows of microseconds (a reader
killed between two halves of one message); `manage.py watch_queues` heals those.
"""

import fcntl
import os
from types import TracebackType
from typing import Any

from django_q import cluster
from django_q.queues import Queue


class DeathSafeLock:
    """A lock between processes, one thread each. The kernel frees it when its holder dies."""

    def __init__(self) -> None:
        self.file = os.memfd_create("rota-queue")

    def __enter__(self) -> None:
        fcntl.lockf(self.file, fcntl.LOCK_EX)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        fcntl.lockf(self.file, fcntl.LOCK_UN)


class DeathSafeQueue(Queue):
    """q2's queue with that lock round its reading end. Only the blocking `get()` is offered; q2 calls no other."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rlock = DeathSafeLock()


def install() -> None:
    """Have clusters started by this process use it."""
    cluster.Queue = DeathSafeQueue  # type: ignore[attr-defined]
