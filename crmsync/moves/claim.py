"""A worker takes the next chunk: the messages, and the lanes that keep everybody else off what they will lock.

Reads a bounded head of the due messages, never the whole table. Nothing here waits for anybody: a message or lane that
another transaction holds is left to it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from crmsync import lockpolicy
from crmsync.chunks import Candidate, LaneView, choose
from crmsync.models import Claim, CrmRecord, Lane, OutboxMessage
from crmsync.moves.org import admit, may_write

HEAD = 200
WINDOWS = 5  # how many heads deep a worker looks past lanes that others hold


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one worker holds under one claim, in sending order."""

    token: UUID
    worker: str
    object: str
    operation: str
    rows: tuple[Candidate, ...]


def claim_next(*, worker: str) -> Chunk | None:
    """The next chunk for this worker, interactive messages first, or None: nothing that is due can be sent now."""
    if not may_write():
        return None
    for priority in OutboxMessage.Priority.values:
        seen: list[int] = []
        since: datetime | None = None
        for _ in range(WINDOWS):
            head = read_head(priority=priority, since=since, seen=seen)
            if not head:
                break
            sendable, lanes = sendable_now(head)
            # Others start at the same head: what they were faster with is left out of the next choice.
            while chosen := choose(sendable, lanes):
                if chunk := take(worker=worker, wanted=chosen):
                    return chunk
                lost = {candidate.message_id for candidate in chosen}
                sendable = [candidate for candidate in sendable if candidate.message_id not in lost]
            seen += [message.pk for message in head]
            since = head[-1].due_at
            if len(head) < HEAD:
                break
    return None


def read_head(*, priority: int, since: datetime | None, seen: Sequence[int]) -> list[OutboxMessage]:
    head = OutboxMessage.objects.due().newest().filter(priority=priority)
    if since is not None:
        head = head.filter(due_at__gte=since).exclude(pk__in=seen)
    return list(head.select_related("record").order_by("due_at", "pk")[:HEAD])


def sendable_now(head: Sequence[OutboxMessage]) -> tuple[list[Candidate], dict[str, LaneView]]:
    """The messages that nothing known stands in the way of, and their lanes.

    Those whose lanes open at a known time are put off to it, so that they clog no head.
    """
    candidates = with_lock_keys(head)
    keys = {key for candidate in candidates for key in candidate.keys}
    lanes = {lane.key: lane for lane in Lane.objects.filter(key__in=keys)}
    free = set(Lane.objects.free().filter(key__in=keys).values_list("key", flat=True))
    coming = parents_first(candidates)
    later: dict[int, datetime] = {}
    sendable = []
    for candidate in candidates:
        if candidate.message_id in coming:
            if (parent_due := coming[candidate.message_id]) is not None:
                later[candidate.message_id] = parent_due
            continue
        opens = [
            max(lane.not_before, lane.quarantined_until or lane.not_before)
            for key in candidate.keys
            if key not in free and (lane := lanes.get(key)) and lane.claim_id is None
        ]
        if opens:
            later[candidate.message_id] = max(opens)
        else:
            sendable.append(candidate)
    if later:
        put_off(later)
    return sendable, {key: LaneView(key in free, lane.failures) for key, lane in lanes.items()}


def with_lock_keys(head: Sequence[OutboxMessage]) -> list[Candidate]:
    by_crm_id = lockpolicy.crm_ids(parent for message in head for parent in (*message.parents, *message.record.parents))
    known: dict[tuple[str, str], str] = {}
    if by_crm_id:
        records = CrmRecord.objects.filter(
            object__in={name for name, _ in by_crm_id}, crm_id__in={crm_id for _, crm_id in by_crm_id}
        )
        known = {(record.object, str(record.crm_id)): record.external_id for record in records}
    return [candidate_of(message, known) for message in head]


def candidate_of(message: OutboxMessage, known: lockpolicy.Ids) -> Candidate:
    record = message.record
    return Candidate(
        message_id=message.pk,
        record_id=record.pk,
        object=record.object,
        operation=message.operation,
        external_id=record.external_id,
        version=message.version,
        priority=message.priority,
        attempts=message.attempts,
        fields=message.fields,
        parents=tuple(message.parents),
        creating=record.delivered_version is None,
        record_key=lockpolicy.record_key(record.object, record.external_id),
        parent_keys=lockpolicy.parent_keys(
            object=record.object, target=message.parents, confirmed=record.parents, known=known
        ),
    )


def parents_first(candidates: Iterable[Candidate]) -> dict[int, datetime | None]:
    """Messages whose parent the CRM does not have yet while an older message brings it; with its due time if pending.

    Only an older message is waited for, so that two records that name each other cannot wait for ever.
    """
    wanted = {
        (parent["object"], parent["external_id"])
        for candidate in candidates
        for parent in candidate.parents
        if "external_id" in parent
        and (parent["object"], parent["external_id"]) != (candidate.object, candidate.external_id)
    }
    if not wanted:
        return {}
    coming = {
        (message.record.object, message.record.external_id): message
        for message in OutboxMessage.objects.open()
        .filter(
            record__object__in={name for name, _ in wanted},
            record__external_id__in={external_id for _, external_id in wanted},
            record__delivered_version__isnull=True,
        )
        .select_related("record")
    }
    waiting: dict[int, datetime | None] = {}
    for candidate in candidates:
        for parent in candidate.parents:
            message = coming.get((parent["object"], parent.get("external_id", "")))
            if message and message.pk < candidate.message_id:
                waiting[candidate.message_id] = message.due_at if message.status == message.Status.PENDING else None
    return waiting


PUT_OFF = """
WITH later AS MATERIALIZED (
    SELECT m.id, u.until FROM unnest(%s::bigint[], %s::timestamptz[]) AS u(id, until)
      JOIN crmsync_outboxmessage AS m ON m.id = u.id
     WHERE m.status = 'pending' AND m.due_at < u.until
       FOR NO KEY UPDATE OF m SKIP LOCKED
)
UPDATE crmsync_outboxmessage AS m SET due_at = later.until FROM later WHERE m.id = later.id
"""


def put_off(until: dict[int, datetime]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(PUT_OFF, [list(until), list(until.values())])


ADD_LANES = """
INSERT INTO crmsync_lane (key) SELECT key FROM unnest(%s::text[]) AS u(key)
 WHERE NOT EXISTS (SELECT FROM crmsync_lane AS l WHERE l.key = u.key) ORDER BY key
ON CONFLICT DO NOTHING
"""


def add_lanes(keys: Sequence[str]) -> None:
    """Insert the missing lanes, in order, in a statement that commits by itself.

    A second worker that inserts the same key waits for this statement only, and nobody can wait in a circle.
    """
    with connection.cursor() as cursor:
        cursor.execute(ADD_LANES, [list(keys)])


def take(*, worker: str, wanted: Sequence[Candidate]) -> Chunk | None:
    """Claim those of the wanted messages all of whose lanes are free, or None."""
    keys = sorted({key for candidate in wanted for key in candidate.keys})
    add_lanes(keys)
    with transaction.atomic(durable=True):
        # The lanes. Proves: nobody else writes under these keys, nor will before our claim ends. Costs: nobody waits,
        # others skip them. The loser leaves the messages that need a lane he did not get to whoever got it.
        free = set(
            Lane.objects.free()
            .filter(key__in=keys)
            .order_by("key")
            .select_for_update(skip_locked=True, no_key=True)
            .values_list("key", flat=True)
        )
        open_to_us = {candidate.message_id: candidate for candidate in wanted if free.issuperset(candidate.keys)}
        # The messages. Proves: still pending, and nobody absorbs them until we commit. The loser skips.
        mine = set(
            OutboxMessage.objects.due()
            .newest()
            .filter(pk__in=open_to_us)
            .order_by("pk")
            .select_for_update(skip_locked=True, no_key=True, of=("self",))
            .values_list("pk", flat=True)
        )
        rows = tuple(candidate for candidate in wanted if candidate.message_id in mine)
        if not rows or not admit():
            return None
        claim = Claim.objects.create(worker=worker, lease_until=Now() + timedelta(seconds=settings.CRM_LEASE_S))
        held = {key for row in rows for key in row.keys}
        OutboxMessage.objects.filter(pk__in=mine).update(status=OutboxMessage.Status.CLAIMED, claim=claim)
        Lane.objects.filter(key__in=held).update(claim=claim)
    return Chunk(token=claim.token, worker=worker, object=rows[0].object, operation=rows[0].operation, rows=rows)
