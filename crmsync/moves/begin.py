"""Say, durably and before the call, that the CRM may be written from now on; or give the claim back unsaid."""

from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from crmsync.errors import ClaimLost, Fault
from crmsync.models import Claim
from crmsync.moves.claim import Chunk
from crmsync.moves.lanes import free_lanes
from crmsync.moves.putback import Back, put_back
from crmsync.moves.settle import end_claim, lock_records, note_org

ATTEMPTS = """
INSERT INTO crmsync_attempt (claim_id, message_id, number)
SELECT %s, u.id, u.number FROM unnest(%s::bigint[], %s::smallint[]) AS u(id, number)
"""
MARGIN_S = 1  # between the call's deadline and the end of the lease


def begin(*, chunk: Chunk) -> None:
    """Commit the attempt as begun. Raises ClaimLost, also where the lease would not outlast the call."""
    with transaction.atomic(durable=True):
        enough = Now() + timedelta(seconds=settings.CRM_TIMEOUT_S + MARGIN_S)
        claims = Claim.objects.live().filter(token=chunk.token, begun_at__isnull=True, lease_until__gt=enough)
        if not claims.update(begun_at=Now()):
            raise ClaimLost(f"token={chunk.token}")
        with connection.cursor() as cursor:
            ids, numbers = zip(*((row.message_id, row.attempts + 1) for row in chunk.rows), strict=True)
            cursor.execute(ATTEMPTS, [chunk.token, list(ids), list(numbers)])


def release(*, chunk: Chunk, because: Fault, dice: float) -> int:
    """Give a claim back that was never begun, and pause the org if it was the org's doing. Raises ClaimLost."""
    with transaction.atomic(durable=True):
        end_claim(token=chunk.token, reason=Claim.EndReason.RELEASED)
        lock_records(row.record_id for row in chunk.rows)
        count = put_back(token=chunk.token, messages=[Back(row.message_id, fault=because) for row in chunk.rows])
        free_lanes(token=chunk.token, clean=False)
        note_org(whole_request=because, failed=[], dice=dice)
    return count
