"""Whether Rota may write to the org at all: it pauses while the login is refused, a limit is reached or nobody answers.

A pause charges no message. When it ends, one worker's next chunk is the probe; the others wait for what it finds.
"""

import logging
from datetime import timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now

from crmsync.backoff import delay_ms
from crmsync.classify import Verdict
from crmsync.errors import Fault
from crmsync.models import FailureKind, OrgState

log = logging.getLogger(__name__)

SILENCES_TO_PAUSE = 3  # one unanswered request may be its own fault; three in a row are the org's
LONG = {"LOGIN_RATE_EXCEEDED", "STORAGE_LIMIT_EXCEEDED", "ExceededQuota"}


def may_write() -> bool:
    return not OrgState.objects.filter(paused_until__gt=Now()).exists()


def admit() -> bool:
    """Not paused, or we are the probe. Call inside the transaction that claims.

    The probe moves the end of the pause ahead by as long as it may take, so that a second worker finds it running.
    Should the probe die, the pause ends by itself again.
    """
    running = OrgState.objects.filter(paused_until__isnull=False)
    if not running.exists():
        return True
    ahead = Now() + timedelta(seconds=settings.CRM_TIMEOUT_S + 1)
    return running.filter(paused_until__lte=Now()).update(paused_until=ahead) > 0


def was_well() -> bool:
    """The org took the last request that anybody heard of."""
    return not OrgState.objects.filter(failures__gt=0).exists()


def answered() -> None:
    """The org took a request: any pause is over. Call inside a transaction."""
    OrgState.objects.filter(Q(paused_until__isnull=False) | Q(failures__gt=0)).update(
        paused_until=None, paused_reason="", failures=0
    )


PAUSE = """
UPDATE crmsync_orgstate
   SET paused_reason = %(reason)s,
       paused_until = clock_timestamp() + %(wait_ms)s * interval '1 millisecond'
 WHERE id = 1
"""
COUNT = """
INSERT INTO crmsync_orgstate AS o (id, failures) VALUES (1, 1)
ON CONFLICT (id) DO UPDATE SET failures = least(o.failures + 1, 1000) RETURNING failures
"""


def not_taken(*, verdict: Verdict, fault: Fault, dice: float) -> bool:
    """The org did not take a request. Pause it where that is not the request's fault. Call inside a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT)
        (failures,) = cursor.fetchone()
        silent = verdict.kind == FailureKind.UNANSWERED and failures >= SILENCES_TO_PAUSE
        if not (verdict.org_wide or silent):
            return False
        wait_ms = pause_ms(verdict=verdict, fault=fault, failures=failures, dice=dice)
        reason = f"{verdict.kind.label}: {fault.code or fault.status} {fault.text}".strip()[:500]
        cursor.execute(PAUSE, {"reason": reason, "wait_ms": wait_ms})
    log.warning("org paused ms=%s kind=%s code=%s", wait_ms, verdict.kind, fault.code or fault.status)
    return True


def pause_ms(*, verdict: Verdict, fault: Fault, failures: int, dice: float) -> int:
    """As long as the org asks for; else a fixed time for what a person must cure, and a growing one for the rest."""
    if fault.retry_after_s:
        return fault.retry_after_s * 1000
    lasting = verdict.kind == FailureKind.AUTH or fault.code in LONG or "TotalRequests" in fault.text
    if lasting:
        return int(settings.CRM_PAUSE_S * 1000)
    cap_ms = min(settings.CRM_BACKOFF_CAP_MS, settings.CRM_PAUSE_S * 1000)
    return delay_ms(failures, first_ms=settings.CRM_BACKOFF_FIRST_MS, cap_ms=cap_ms, dice=dice)
