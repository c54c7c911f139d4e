"""The job lock in Redis: SET NX with an expiry and a random token, given up by whoever still has the token.

As in Postgres it is an economy. A lock that Redis lost (its time ran out, it was restarted, a replica took over) lets
two senders run side by side; the claims keep them apart and the gate lets each mail through once. So where Redis cannot
be reached, senders run without a lock rather than not at all.
"""

import logging
import uuid
from functools import lru_cache

import redis
from django.conf import settings

log = logging.getLogger(__name__)

ANSWER_S = 2.0
PREFIX = "rota:job:"

# Compare and act in one step: between a GET and a DEL the lock could have become somebody else's.
RENEW = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""
RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


def take(*, name: str, lease_s: float) -> uuid.UUID | None:
    """Take the lock for `lease_s` seconds by Redis's clock; None where somebody holds it."""
    token = uuid.uuid4()
    try:
        taken = client(settings.JOB_LOCK_URL).set(PREFIX + name, token.hex, nx=True, px=milliseconds(lease_s))
    except redis.RedisError as fault:
        log.warning("job lock out of reach, running without it job=%r fault=%s", name, type(fault).__name__)
        return token
    return token if taken else None


def renew(*, name: str, token: uuid.UUID, lease_s: float) -> bool:
    """Hold it for longer; False where it was lost. Out of reach is not lost: the run goes on."""
    try:
        script = client(settings.JOB_LOCK_URL).register_script(RENEW)
        return bool(script(keys=[PREFIX + name], args=[token.hex, milliseconds(lease_s)]))
    except redis.RedisError as fault:
        log.warning("job lock out of reach, going on job=%r fault=%s", name, type(fault).__name__)
        return True


def release(*, name: str, token: uuid.UUID) -> None:
    """Let go of it, if it is still ours; out of reach, it ends by itself."""
    try:
        client(settings.JOB_LOCK_URL).register_script(RELEASE)(keys=[PREFIX + name], args=[token.hex])
    except redis.RedisError as fault:
        log.warning("job lock not released job=%r fault=%s", name, type(fault).__name__)


@lru_cache(maxsize=4)
def client(url: str) -> redis.Redis:
    """One client, with its pool, for a URL."""
    return redis.Redis.from_url(url, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S)


def milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1_000))
