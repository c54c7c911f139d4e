"""What must hold between the times that sending depends on, found at start."""

import math
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from outreach.errors import BadAddress
from outreach.mail.addresses import wire_address
from outreach.mail.providers import PROVIDERS
from outreach.mail.timing import longest_batch_s
from outreach.moves import redis_lock

CHECKS = "outreach"


@register(CHECKS)
def a_lease_outlives_the_longest_batch(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """The reaper must never overtake a worker that is only waiting for a slow relay."""
    if longest_batch_s() >= settings.CLAIM_LEASE_S:
        return [
            Error(
                f"CLAIM_LEASE_S is {settings.CLAIM_LEASE_S}; the longest batch takes {longest_batch_s():.0f} s "
                "(SEND_BUDGET_S, nine times EMAIL_PHASE_TIMEOUT_S, EMAIL_REPLY_TIMEOUT_S). It must be longer.",
                id="outreach.E001",
            )
        ]
    return []


@register(CHECKS)
def a_task_outlives_the_longest_batch(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """django-q2 kills a task at its timeout; a mail on its way then is in doubt, though nothing was wrong."""
    queue = settings.Q_CLUSTER["ALT_CLUSTERS"].get("outreach")
    timeout = queue["timeout"] if queue else math.inf
    if timeout <= longest_batch_s():
        return [
            Error(f"Queue outreach: timeout is {timeout}, it must exceed {longest_batch_s():.0f}.", id="outreach.E002")
        ]
    return []


@register(CHECKS)
def notices_have_a_sender_that_relays_take(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """One address that is none would have every notice refused."""
    if not settings.NOTICE_FROM:
        return []
    try:
        sender = wire_address(settings.NOTICE_FROM)
    except BadAddress as problem:
        return [Error(f"NOTICE_FROM: {problem}", id="outreach.E007")]
    if sender.needs_utf8:
        return [Error("NOTICE_FROM must be ASCII before the @.", id="outreach.E007")]
    return []


@register(CHECKS)
def tls_is_asked_for_once(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """STARTTLS and TLS from the first byte exclude each other."""
    if settings.EMAIL_USE_TLS and settings.EMAIL_USE_SSL:
        return [Error("EMAIL_USE_TLS and EMAIL_USE_SSL exclude each other.", id="outreach.E003")]
    return []


@register(CHECKS)
def a_provider_is_known_and_the_only_road(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """A word in EMAIL_PROVIDER that Rota does not know must not mean that mail leaves another way."""
    name = settings.EMAIL_PROVIDER
    if name and name not in PROVIDERS:
        known = ", ".join(sorted(PROVIDERS))
        return [Error(f"EMAIL_PROVIDER is {name}; Rota knows {known}, and SMTP by EMAIL_HOST.", id="outreach.E004")]
    if name and settings.EMAIL_HOST:
        return [Error("EMAIL_PROVIDER and EMAIL_HOST exclude each other.", id="outreach.E005")]
    if name and not settings.EMAIL_PROVIDER_KEY:
        return [Error("EMAIL_PROVIDER needs EMAIL_PROVIDER_KEY.", id="outreach.E006")]
    return []


@register(CHECKS)
def the_job_lock_is_in_redis_or_here(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """A URL of anything else would look like a lock and be none. Redis need not be there yet."""
    url = settings.JOB_LOCK_URL
    if url and not url.startswith(("redis://", "rediss://", "unix://")):
        return [Error("JOB_LOCK_URL should begin with redis://, rediss:// or unix://.", id="outreach.E008")]
    try:
        if url:
            redis_lock.client(url)
    except ValueError as fault:
        return [Error(f"JOB_LOCK_URL cannot be read: {fault}.", id="outreach.E008")]
    return []
