"""Whether Rota may write to the org at all: it pauses while the login is refused, a limit is reached or nobody answers.

A pause charges no message. When it ends, one worker's next chunk is the probe; the others wait for what it finds. Two
lesser pauses leave the rest of the traffic alone: of mass updates, while the org's calls of the day run low, and of
bulk jobs, while the org takes none.
"""

import logging
from datetime import datetime
from enum import Enum

from django.conf import settings
from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from crmsync.backoff import delay_ms
from crmsync.classify import Verdict
from crmsync.errors import Fault
from crmsync.models import FailureKind, OrgState

log = logging.getLogger(__name__)

Usage = tuple[int, int]

SILENCES_TO_PAUSE = 3  # one unanswered request may be its own fault; three in a row are the org's
LONG = {"LOGIN_RATE_EXCEEDED", "STORAGE_LIMIT_EXCEEDED"}
# Shares of the org's calls of 24 hours: the rest belongs to whoever else works there.
MASS_STOPS_AT, ALL_STOPS_AT = 0.80, 0.95
LOW_PAUSES = 15  # the allowance comes back over the day: looked at less often, for a look costs a call of it


def may_write() -> bool:
    return not OrgState.objects.filter(Q(paused_until__gt=Now()) | Q(stopped_at__isnull=False)).exists()


def not_writing() -> str:
    """Who stopped writing to the org, or what it is paused for and until when, for people; "": it is written to."""
    org, now = OrgState.objects.first(), timezone.now()
    if org is None:
        return ""
    if org.stopped_at:
        return f"Stopped by {org.stopped_by} on {utc(org.stopped_at)}: {org.stopped_reason or 'no reason given'}"
    if org.paused_until and org.paused_until > now:
        return f"Paused until {utc(org.paused_until)}: {org.paused_reason}"
    if org.mass_paused_until and org.mass_paused_until > now:
        return f"Mass updates are paused until {utc(org.mass_paused_until)}: {org.mass_paused_reason}"
    return ""


def utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def bulk_is_open() -> bool:
    """The org takes bulk jobs, as far as is known."""
    return not OrgState.objects.filter(bulk_paused_until__gt=Now()).exists()


def bulk_taken() -> None:
    """The org has made a bulk job: it takes them. Call inside a transaction."""
    OrgState.objects.filter(bulk_paused_until__isnull=False).update(bulk_paused_until=None, bulk_paused_reason="")


class Admission(Enum):
    NO = "paused"
    YES = "open"
    PROBE = "the first after a pause"


PROBE = """
UPDATE crmsync_orgstate SET paused_until = clock_timestamp() + %s * interval '1 second'
 WHERE id = 1 AND paused_until <= clock_timestamp()
"""


def admit() -> Admission:
    """Whether a chunk may be claimed now. Call inside the transaction that claims it.

    The probe moves the end of the pause ahead by as long as it may take, so that a second worker finds it running.
    Should the probe die, the pause ends by itself again.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT stopped_at IS NOT NULL, paused_until IS NULL FROM crmsync_orgstate WHERE id = 1")
        stopped, unpaused = cursor.fetchone() or (False, True)
        if stopped or unpaused:
            return Admission.NO if stopped else Admission.YES
        cursor.execute(PROBE, [settings.CRM_TIMEOUT_S + 1])
        return Admission.PROBE if cursor.rowcount else Admission.NO


def was_well() -> bool:
    """The org took the last request that anybody heard of."""
    return not OrgState.objects.filter(failures__gt=0).exists()


def answered(*, usage: Usage | None = None) -> None:
    """The org took a request: any pause is over, unless the calls of the day run low. Call inside a transaction.

    `usage`: how many of them are used, and of how many, as the org's last answer said.
    """
    share = usage[0] / usage[1] if usage and usage[1] else 0.0
    if usage and share >= MASS_STOPS_AT:
        running_low(usage=usage, everything=share >= ALL_STOPS_AT)
        if share >= ALL_STOPS_AT:
            OrgState.objects.filter(failures__gt=0).update(failures=0)
            return
        OrgState.objects.filter(Q(paused_until__isnull=False) | Q(failures__gt=0)).update(
            paused_until=None, paused_reason="", failures=0
        )
        return
    OrgState.objects.filter(
        Q(paused_until__isnull=False) | Q(failures__gt=0) | Q(mass_paused_until__isnull=False)
    ).update(paused_until=None, paused_reason="", failures=0, mass_paused_until=None, mass_paused_reason="")


LOW = """
INSERT INTO crmsync_orgstate AS o (id, mass_paused_until, mass_paused_reason, paused_until, paused_reason)
VALUES (1, clock_timestamp() + %(s)s * interval '1 second', %(reason)s,
        CASE WHEN %(all)s THEN clock_timestamp() + %(s)s * interval '1 second' END,
        CASE WHEN %(all)s THEN %(reason)s ELSE '' END)
ON CONFLICT (id) DO UPDATE SET
    mass_paused_until = excluded.mass_paused_until, mass_paused_reason = excluded.mass_paused_reason,
    paused_until = coalesce(excluded.paused_until, o.paused_until),
    paused_reason = CASE WHEN excluded.paused_until IS NULL THEN o.paused_reason ELSE excluded.paused_reason END
"""
NO_BULK = """
INSERT INTO crmsync_orgstate AS o (id, bulk_paused_until, bulk_paused_reason)
VALUES (1, clock_timestamp() + %(s)s * interval '1 second', %(reason)s)
ON CONFLICT (id) DO UPDATE SET
    bulk_paused_until = excluded.bulk_paused_until, bulk_paused_reason = excluded.bulk_paused_reason
"""


def running_low(*, usage: Usage, everything: bool) -> None:
    """Stop mass updates, or all writing, until a later look at the org's calls. Call inside a transaction."""
    reason = f"{FailureKind.RATE_LIMIT.label}: {usage[0]:,} of {usage[1]:,} calls of the day are used."
    with connection.cursor() as cursor:
        cursor.execute(LOW, {"s": settings.CRM_PAUSE_S * LOW_PAUSES, "reason": reason, "all": everything})
    log.warning("calls run low used=%s most=%s all=%s", *usage, everything)


def close_bulk(*, verdict: Verdict, fault: Fault) -> None:
    """Make no bulk jobs for a while; everything goes by calls meanwhile. Call inside a transaction."""
    pause_s = max(fault.retry_after_s, settings.CRM_PAUSE_S * (LOW_PAUSES if verdict.bulk_only else 1))
    with connection.cursor() as cursor:
        cursor.execute(NO_BULK, {"s": pause_s, "reason": reason_of(verdict, fault)})
    log.warning("no bulk jobs s=%s code=%s", pause_s, fault.code or fault.status)


def reason_of(verdict: Verdict, fault: Fault) -> str:
    return f"{verdict.kind.label}: {fault.code or fault.status} {fault.text}".strip()[:500]


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
        cursor.execute(PAUSE, {"reason": reason_of(verdict, fault), "wait_ms": wait_ms})
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
