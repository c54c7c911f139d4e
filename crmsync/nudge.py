"""Wake a worker. The only module that puts tasks into django-q2's queues.

It does what django-q2's own async_task does, in one statement and without its habit of closing the caller's connection.
A nudge is a kindness, never a promise: the tables hold the work, the sweep finds what a lost nudge has left behind.
"""

import datetime as dt
import logging
import uuid
from collections.abc import Mapping
from typing import Any

from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, connections, transaction
from django.utils import timezone
from django_q.conf import Conf
from django_q.signing import SignedPackage

log = logging.getLogger(__name__)

# A coalesced queue carries this one task: any row of it that is not dequeued yet will see what we have just committed.
COALESCED: Mapping[str, str] = {"crm": "crmsync.tasks.deliver"}

# `lock` is django-q2's "not before"; while a task runs it lies in the future. Without a clock of its own, an earlier
# nudge with exactly our `lock` is the same nudge.
NUDGE = """
INSERT INTO django_q_ormq (key, payload, lock)
SELECT %(queue)s, %(payload)s, coalesce(%(at)s::timestamptz, clock_timestamp())
WHERE NOT EXISTS (
    SELECT FROM django_q_ormq WHERE key = %(queue)s AND (lock <= clock_timestamp() OR lock = %(at)s::timestamptz)
)
"""
ASK = """
INSERT INTO django_q_ormq (key, payload, lock)
VALUES (%(queue)s, %(payload)s, coalesce(%(at)s::timestamptz, clock_timestamp()))
"""


def nudge(queue: str = "crm", *, at: dt.datetime | None = None) -> None:
    """Have the queue's one task run soon, or not before `at`; do nothing if it is about to. Call outside a transaction.

    Never raises: what a lost nudge would have started, the sweep starts.
    """
    put(NUDGE, queue=queue, task=COALESCED[queue], args=(), at=at)


def nudge_on_commit(queue: str = "crm") -> None:
    """Nudge once the current transaction has committed; at once outside of one."""
    transaction.on_commit(lambda: nudge(queue), robust=True)


def ask(task: str, *ids: int | str, queue: str = "default", at: dt.datetime | None = None) -> None:
    """Have one small task run soon, or not before `at`: its dotted path and ids, never data. Never raises.

    Call outside a transaction.
    """
    put(ASK, queue=queue, task=task, args=ids, at=at)


def put(statement: str, *, queue: str, task: str, args: tuple[int | str, ...], at: dt.datetime | None) -> None:
    key = Conf.PREFIX if queue == "default" else queue
    package: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "name": task,
        "func": task,
        "args": args,
        "kwargs": {},
        "cluster": key,
        "save": False,
        "ack_failure": True,
        "started": timezone.now(),
    }
    try:
        payload: str = SignedPackage.dumps(package)
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(statement, {"queue": str(key), "payload": payload, "at": at})
    except (DatabaseError, InterfaceError) as error:
        log.warning("nudge lost queue=%s task=%s error=%s", queue, task, type(error).__name__)
