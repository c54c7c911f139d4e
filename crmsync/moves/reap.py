"""Take back what dead or too slow workers hold.

Naive on purpose: it knows only the lease. A claim that never began its call goes back at once. One that began may have
written the CRM, and its call may still commit; its lanes stay closed until that is over, then the newest version is
sent again. It may therefore send a change twice, which an upsert by external id allows, and never an older one later.
"""

import random
from dataclasses import dataclass

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef

from crmsync.backoff import halvings, what_next
from crmsync.classify import classify
from crmsync.errors import NO_ANSWER, Fault
from crmsync.models import BulkJob, Claim, OutboxMessage
from crmsync.moves.lanes import Brake, free_lanes
from crmsync.moves.outcomes import dead_of_silence
from crmsync.moves.putback import Back, put_back
from crmsync.moves.settle import end_claim, lock_records, patience

EXPIRED = Fault(NO_ANSWER, "The worker that sent it did not report back.")


@dataclass(frozen=True, slots=True)
class Reaped:
    """What one expired claim left: messages due again, messages dead after too many silences; was the call begun?"""

    token: str
    worker: str
    begun: bool
    put_back: int
    dead: int


def reap_next() -> Reaped | None:
    """Reap the claim that expired first, or None. Two reapers at once are harmless: each skips what the other holds."""
    with transaction.atomic(durable=True):
        # Proves: expired by the database's clock; neither its worker nor another reaper ends it now. The loser skips.
        # A claim with an unfinished bulk job is no dead worker's: whoever comes next carries the job on.
        alone = Claim.objects.expired().exclude(Exists(BulkJob.objects.unfinished().filter(claim=OuterRef("pk"))))
        claim = alone.order_by("lease_until").select_for_update(skip_locked=True, no_key=True).first()
        if claim is None:
            return None
        end_claim(token=claim.token, reason=Claim.EndReason.EXPIRED)
        messages = list(OutboxMessage.objects.filter(claim=claim).order_by("pk"))
        lock_records(message.record_id for message in messages)
        if claim.begun_at is None:
            count = put_back(token=claim.token, messages=[Back(message.pk) for message in messages])
            free_lanes(token=claim.token, clean=False)
            return Reaped(str(claim.token), claim.worker, begun=False, put_back=count, dead=0)
        closed_ms = ms_until_over(claim)
        verdict = classify(EXPIRED, external_id_field=settings.CRM_EXTERNAL_ID_FIELD)
        back, dead = [], []
        for message in messages:
            following = what_next(
                verdict, attempts=message.attempts, rows=len(messages), whole_request=True, org_was_well=True,
                parent_coming=False,
                patience=patience(), dice=random.random(),
            )  # fmt: skip
            if following.dead:
                dead.append(message.pk)
            else:
                back.append(Back(message.pk, wait_ms=closed_ms, charge=1, kind=str(verdict.kind), fault=EXPIRED))
        count = put_back(token=claim.token, messages=back)
        dead_of_silence(token=claim.token, message_ids=dead, fault=EXPIRED)
        halved = halvings(len(messages)) if len(messages) > 1 else 0
        keys = claim.lanes.values_list("key", flat=True)
        free_lanes(
            token=claim.token,
            brakes=[Brake(key, halvings=halved, quarantine_ms=closed_ms) for key in keys],
            clean=False,
        )
        claim.tries.filter(ended_at__isnull=True).update(
            ended_at=claim.lease_until, outcome=str(verdict.kind), code=EXPIRED.code, text=EXPIRED.text
        )
        return Reaped(str(claim.token), claim.worker, begun=True, put_back=count, dead=len(dead))


def ms_until_over(claim: Claim) -> int:
    """How long the claim's call may still commit in the org, from now, in milliseconds by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT ceil(greatest(0, extract(epoch FROM begun_at - clock_timestamp()) + %s) * 1000)::int"
            " FROM crmsync_claim WHERE token = %s",
            [settings.CRM_TIMEOUT_S + settings.CRM_QUARANTINE_S, claim.token],
        )
        return int(cursor.fetchone()[0])


PRUNE_CLAIMS = """
DELETE FROM crmsync_claim WHERE token = ANY (ARRAY(
    SELECT token FROM crmsync_claim
     WHERE ended_at < clock_timestamp() - %s * interval '1 second' AND begun_at IS NULL
     ORDER BY ended_at LIMIT %s FOR UPDATE SKIP LOCKED))
"""


def prune_claims(*, older_s: float, most: int) -> int:
    """Delete claims that ended before they began; what was sent stays on record. Returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(PRUNE_CLAIMS, [older_s, most])
        return cursor.rowcount
