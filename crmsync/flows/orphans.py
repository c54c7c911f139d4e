"""Jobs that the org has made and nobody recorded, because the answer or the worker was lost: find them, abort them.

Such a job is open and empty, and nothing of it will ever be processed; but it counts, and it puzzles people. It is
known by what we asked for, at that time, and by standing in no journal.
"""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from crmsync import bulk1, bulk2
from crmsync.bulk import Ref
from crmsync.errors import CallFailed, NotConfigured
from crmsync.gateway import Org, connect
from crmsync.models import BulkJob
from crmsync.moves.jobs import no_orphan_of
from crmsync.moves.org import may_write

log = logging.getLogger(__name__)

HEADERS = {"Sforce-Call-Options": "client=rota/orphans"}
CLOCKS_DIFFER = timedelta(minutes=15)  # the org's and ours, at most


def sweep_orphans(*, org: Org | None = None) -> int:
    """Abort the open jobs of ours that nobody recorded; how many. Call outside a transaction. Never raises for an org
    that cannot be asked: the next sweep asks again."""
    over = timezone.now() - timedelta(seconds=settings.CRM_TIMEOUT_S + settings.CRM_QUARANTINE_S)
    lost = list(BulkJob.objects.filter(maybe_orphaned=True, created_at__lt=over))
    if not lost or not may_write():
        return 0
    try:
        return sum(abort_orphans_of(job, org or connect()) for job in lost)
    except (CallFailed, NotConfigured) as error:
        log.warning("orphans not swept: %s", error)
        return 0


def abort_orphans_of(job: BulkJob, org: Org) -> int:
    found = [each for each in bulk2.listed(org, HEADERS) if is_like(job, each)]
    # Read after the list: whoever made one of these jobs a moment ago has recorded it by then, or is about to, and then
    # his own job is still planned and we come again.
    recorded = set(BulkJob.objects.filter(org_id__in=[each["id"] for each in found]).values_list("org_id", flat=True))
    if BulkJob.objects.filter(status=BulkJob.Status.PLANNED, object=job.object).exists():
        return 0
    orphans = [each["id"] for each in found if each["id"] not in recorded]
    for job_id in orphans:
        log.warning("aborting an orphaned job id=%s", job_id)
        (bulk2 if job.road == "bulk2" else bulk1).abort(org, Ref(job_id), HEADERS)
    no_orphan_of(job)
    return len(orphans)


def is_like(job: BulkJob, listed: dict[str, object]) -> bool:
    made_at = datetime.fromisoformat(str(listed["createdDate"]))
    return (
        listed["state"] == "Open"
        and listed["object"] == job.object
        and listed["operation"] == job.operation
        and (listed.get("jobType", "V2Ingest") == "V2Ingest") == (job.road == "bulk2")
        and abs(made_at - job.created_at) < CLOCKS_DIFFER + timedelta(seconds=settings.CRM_TIMEOUT_S)
    )
