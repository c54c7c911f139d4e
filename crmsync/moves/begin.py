"""Say, durably and before the call, that the CRM may be written from now on; or give the claim back unsaid."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from crmsync.chunks import Candidate
from crmsync.errors import ClaimLost, Fault
from crmsync.models import BulkJob, Claim, OutboxMessage
from crmsync.moves.claim import Chunk
from crmsync.moves.jobs import plan_job
from crmsync.moves.lanes import free_lanes, free_lanes_but
from crmsync.moves.outcomes import Outcome
from crmsync.moves.pace import GOES_FIRST, take_place
from crmsync.moves.putback import Back, put_back
from crmsync.moves.settle import Settled, end_claim, lock_records, note_org, weigh, write_down

ATTEMPTS = """
INSERT INTO crmsync_attempt (claim_id, message_id, number)
SELECT %s, u.id, u.number FROM unnest(%s::bigint[], %s::smallint[]) AS u(id, number)
"""
MARGIN_S = 1  # between the call's deadline and the end of the lease


WANTED = """
SELECT NOT EXISTS (SELECT FROM crmsync_orgstate WHERE stopped_at IS NOT NULL OR mass_paused_until > clock_timestamp()
                       OR (paused_until > clock_timestamp() AND NOT %(first)s))
   AND NOT EXISTS (SELECT FROM crmsync_lane WHERE claim_id = %(token)s
                      AND (held_until > clock_timestamp() OR reserved_until > clock_timestamp()))
   AND NOT EXISTS (SELECT FROM crmsync_outboxmessage AS m JOIN crmsync_batch AS b ON b.id = m.batch_id
                    WHERE m.claim_id = %(token)s AND m.priority = 1
                      AND (b.paused_at IS NOT NULL OR b.status = 'cancelled'))
"""


def still_wanted(*, chunk: Chunk) -> bool:
    """While this mass chunk was ready nobody has stopped the org or its mass updates, held a parent, paused or
    cancelled a mass update, or waited for one of its lanes for too long. The probe after a pause goes on.
    """
    with connection.cursor() as cursor:
        cursor.execute(WANTED, {"token": chunk.token, "first": chunk.rank == GOES_FIRST})
        return bool(cursor.fetchone()[0])


def begin(*, chunk: Chunk) -> bool:
    """Commit the attempt as begun. False, and nothing is changed: a mass chunk has no place yet. Raises ClaimLost, also
    where the lease would not outlast the call.
    """
    with transaction.atomic(durable=True):
        if chunk.is_mass and not take_place(token=chunk.token):
            return False
        enough = Now() + timedelta(seconds=settings.CRM_TIMEOUT_S + MARGIN_S)
        claims = Claim.objects.live().filter(token=chunk.token, begun_at__isnull=True, lease_until__gt=enough)
        if not claims.update(begun_at=Now()):
            raise ClaimLost(f"token={chunk.token}")
        note_attempts(chunk.token, chunk.rows)
    return True


def narrow(*, chunk: Chunk, to: Sequence[Candidate], urgent: Sequence[Candidate] = ()) -> Chunk:
    """Give back, unharmed, what will not go along: the chunk that remains. Raises ClaimLost.

    `urgent`: those of them that a bulk job can never carry; they go on as interactive messages, which never meet one.
    """
    stay = {row.message_id for row in to}
    back = [row for row in chunk.rows if row.message_id not in stay]
    if not back:
        return chunk
    with transaction.atomic(durable=True):
        if not Claim.objects.live().filter(token=chunk.token, begun_at__isnull=True).update(worker=chunk.worker):
            raise ClaimLost(f"token={chunk.token}")
        lock_records(row.record_id for row in back)
        OutboxMessage.objects.filter(claim=chunk.token, pk__in=[row.message_id for row in urgent]).update(
            priority=OutboxMessage.Priority.INTERACTIVE
        )
        put_back(token=chunk.token, messages=[Back(row.message_id) for row in back])
        free_lanes_but(token=chunk.token, keep={key for row in to for key in row.keys})
    return replace(chunk, rows=tuple(to))


def give_back(*, chunk: Chunk) -> int:
    """Give a claim back that was never begun, as it was; how many rows. Raises ClaimLost."""
    with transaction.atomic(durable=True):
        end_claim(token=chunk.token, reason=Claim.EndReason.RELEASED)
        lock_records(row.record_id for row in chunk.rows)
        count = put_back(token=chunk.token, messages=[Back(row.message_id) for row in chunk.rows])
        free_lanes(token=chunk.token, clean=False)
    return count


def begin_job(
    *, chunk: Chunk, sent: Sequence[Candidate], known: Sequence[Outcome], ids: Mapping[int, str]
) -> tuple[BulkJob, Settled] | None:
    """Commit the job as planned, with the rows it will carry; and what is settled without it. None, and nothing is
    changed: a mass chunk has no place. Raises ClaimLost.

    `known`: outcomes that need no job. `ids`: the org's ids, by record, that rows will go under and come back with.
    """
    with transaction.atomic(durable=True):
        if chunk.is_mass and not take_place(token=chunk.token):
            return None
        claims = Claim.objects.live().filter(token=chunk.token, begun_at__isnull=True, lease_until__gt=Now())
        if not claims.update(begun_at=Now()):
            raise ClaimLost(f"token={chunk.token}")
        note_attempts(chunk.token, chunk.rows)
        lock_records(row.record_id for row in (*sent, *(outcome.row for outcome in known)))
        settled = write_down(token=chunk.token, operation=chunk.operation, weighed=weigh(known, rows=1))
        free_lanes_but(token=chunk.token, keep={key for row in sent for key in row.keys})
        note_ids(ids)
        job = plan_job(
            token=chunk.token,
            road=chunk.road,
            object=chunk.object,
            operation=chunk.operation,
            rows=len(sent),
            worker=chunk.worker,
        )
    return job, settled


NOTE_IDS = """
UPDATE crmsync_crmrecord AS r SET crm_id = u.crm_id FROM unnest(%s::bigint[], %s::text[]) AS u(id, crm_id)
 WHERE r.id = u.id AND r.crm_id IS DISTINCT FROM u.crm_id
"""


def note_ids(ids: Mapping[int, str]) -> None:
    """The org's own ids of records, as it just told them."""
    with connection.cursor() as cursor:
        cursor.execute(NOTE_IDS, [list(ids), list(ids.values())])


def note_attempts(token: UUID, rows: Sequence[Candidate]) -> None:
    with connection.cursor() as cursor:
        ids, numbers = zip(*((row.message_id, row.attempts + 1) for row in rows), strict=True)
        cursor.execute(ATTEMPTS, [token, list(ids), list(numbers)])


def release(*, chunk: Chunk, because: Fault, dice: float) -> int:
    """Give a claim back that was never begun, and pause the org if it was the org's doing. Raises ClaimLost."""
    with transaction.atomic(durable=True):
        end_claim(token=chunk.token, reason=Claim.EndReason.RELEASED)
        lock_records(row.record_id for row in chunk.rows)
        count = put_back(token=chunk.token, messages=[Back(row.message_id, fault=because) for row in chunk.rows])
        free_lanes(token=chunk.token, clean=False)
        note_org(whole_request=because, failed=[], dice=dice)
    return count
