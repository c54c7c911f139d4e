"""Have a job run once at a time, over all machines. An economy, not the guarantee: that is the gate's.

A row in Postgres, or a key in Redis where JOB_LOCK_URL names one.
"""

import uuid

from django.conf import settings
from django.db import connection, transaction

from outreach.moves import redis_lock
from outreach.moves.events import Kind, Layer, tell


def take(*, name: str, worker: str, lease_s: float) -> uuid.UUID | None:
    """Take the lock for `lease_s` seconds by the database's clock; None, and an event, where somebody holds it.

    Opens a transaction. Whoever does not get it goes home; a holder that died is waited for until its lease ends.
    """
    if settings.JOB_LOCK_URL:
        held = redis_lock.take(name=name, lease_s=lease_s)
        if held is None:
            tell(kind=Kind.TURNED_AWAY, layer=Layer.JOB_LOCK, worker=worker, reason=f"another run holds {name}")
        return held
    token = uuid.uuid4()
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(TAKE, {"name": name, "worker": worker, "token": token, "lease": lease_s})
        if cursor.fetchone() is not None:
            return token
        tell(kind=Kind.TURNED_AWAY, layer=Layer.JOB_LOCK, worker=worker, reason=f"another run holds {name}")
    return None


def renew(*, name: str, token: uuid.UUID, lease_s: float) -> bool:
    """Hold it for longer; False where it was lost."""
    if settings.JOB_LOCK_URL:
        return redis_lock.renew(name=name, token=token, lease_s=lease_s)
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(RENEW, {"name": name, "token": token, "lease": lease_s})
        return cursor.rowcount == 1


def release(*, name: str, token: uuid.UUID) -> None:
    """Let go of it, if it is still ours."""
    if settings.JOB_LOCK_URL:
        redis_lock.release(name=name, token=token)
        return
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(RELEASE, {"name": name, "token": token})


TAKE = """
    INSERT INTO outreach_joblock AS held (name, token, worker, taken_at, lease_until)
    SELECT %(name)s, %(token)s, %(worker)s, t, t + make_interval(secs => %(lease)s) FROM clock_timestamp() AS t
    ON CONFLICT (name) DO UPDATE
       SET token = excluded.token, worker = excluded.worker, taken_at = excluded.taken_at,
           lease_until = excluded.lease_until
     WHERE held.token IS NULL OR held.lease_until < clock_timestamp()
    RETURNING token
"""
RENEW = """
    UPDATE outreach_joblock SET lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
     WHERE name = %(name)s AND token = %(token)s
"""
RELEASE = """
    UPDATE outreach_joblock SET token = NULL, worker = '', taken_at = NULL, lease_until = NULL
     WHERE name = %(name)s AND token = %(token)s
"""
