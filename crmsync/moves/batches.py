"""A mass update from its file to its end: started once, its rows queued piece by piece, paused, cancelled.

The batch's row is the checkpoint: a piece is queued in the transaction that counts it, so whoever goes on after a crash
queues no row twice and leaves none out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import F, Max
from django.db.models.functions import Now

from crmsync import outbox
from crmsync.errors import PushedBefore, WrongState
from crmsync.models import Batch, BatchPart, Intervention, Operation, OutboxMessage
from crmsync.moves.interventions import note

UPLOAD_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class File:
    """What a batch is made of: the file's name, fingerprint, encoding if said, header and number of rows."""

    name: str
    digest: str
    encoding: str
    columns: Sequence[str]
    rows: int


def start(*, file: File, object: str, operation: Operation, by: str, again: bool = False) -> tuple[Batch, bool]:
    """The batch of this file, and whether it is new; one whose rows are not all queued yet is to be gone on with.

    Raises PushedBefore where all its rows were queued already, unless it should be pushed `again`.
    """
    same = Batch.objects.filter(digest=file.digest, object=object, operation=operation)
    unfinished = same.loading().first()
    if unfinished:
        return unfinished, False
    done = same.filter(status=Batch.Status.QUEUED).aggregate(most=Max("again"))["most"]
    if done is not None and not again:
        raise PushedBefore(detail_of(same.filter(status=Batch.Status.QUEUED).latest("created_at")))
    try:
        with transaction.atomic(durable=True):
            return Batch.objects.create(
                **columns_of(file, object, operation, by), again=0 if done is None else done + 1
            ), True
    except IntegrityError:  # another run has just started the same file
        return start(file=file, object=object, operation=operation, by=by, again=again)


def columns_of(file: File, object: str, operation: Operation, by: str) -> dict[str, Any]:
    return {
        "object": object,
        "operation": operation,
        "file_name": file.name,
        "digest": file.digest,
        "encoding": file.encoding,
        "columns": list(file.columns),
        "rows_total": file.rows,
        "created_by": by,
    }


def detail_of(batch: Batch) -> str:
    told = f"Mass update {batch.pk} of {batch.created_at:%Y-%m-%d %H:%M} UTC by {batch.created_by}"
    if batch.status == Batch.Status.LOADING:
        return f"{told} is being queued: {batch.rows_queued:,} of {batch.rows_total:,} rows so far."
    return f"{told} has all its rows."


def offer(
    *, file: File, object: str, operation: Operation, by: str, content: bytes, plan: dict[str, Any] | None = None
) -> Batch:
    """Keep an uploaded file until a person says go. Opens a transaction."""
    with transaction.atomic(durable=True):
        batch = Batch.objects.create(**columns_of(file, object, operation, by), status=Batch.Status.OFFERED, plan=plan)
        pieces = range(0, len(content), UPLOAD_PIECE)
        BatchPart.objects.bulk_create(
            BatchPart(batch=batch, number=number, content=content[start : start + UPLOAD_PIECE])
            for number, start in enumerate(pieces)
        )
    return batch


def go(*, batch_id: int, by: str, again: bool = False) -> None:
    """Say go to an offered file. Raises WrongState if somebody has; PushedBefore for the rows of another batch."""
    before = pushed_before(Batch.objects.get(pk=batch_id))
    if before and not again:
        raise PushedBefore(detail_of(before))
    most = before.again if before else None
    try:
        with transaction.atomic(durable=True):
            offered = Batch.objects.filter(pk=batch_id, status=Batch.Status.OFFERED)
            if not offered.update(
                status=Batch.Status.LOADING, created_by=by, created_at=Now(), again=0 if most is None else most + 1
            ):
                raise WrongState("Somebody has said go, or has withdrawn the file.")
    except IntegrityError as error:
        raise PushedBefore("It is being queued at this moment.") from error


def pushed_before(batch: Batch) -> Batch | None:
    """The last mass update of the same file that was not cancelled."""
    same = Batch.objects.filter(digest=batch.digest, object=batch.object, operation=batch.operation)
    begun = same.filter(status__in=[Batch.Status.LOADING, Batch.Status.QUEUED]).exclude(pk=batch.pk)
    return begun.order_by("again").last()


def queue_lines(*, batch: Batch, at: int, lines: Sequence[outbox.Line]) -> bool:
    """Queue the rows that come after the first `at`. False: another run has queued them, or the batch was cancelled.

    Opens a transaction.
    """
    with transaction.atomic(durable=True):
        # Proves: nobody else queues these rows, nor cancels until we commit. The loser changes nothing.
        ours = Batch.objects.loading().filter(pk=batch.pk, rows_queued=at)
        if not ours.update(rows_queued=F("rows_queued") + len(lines)):
            return False
        outbox.enqueue_lines(object=batch.object, operation=Operation(batch.operation), batch_id=batch.pk, lines=lines)
    return True


def finish_queueing(*, batch_id: int) -> bool:
    """Every row is in the outbox; an uploaded file is not needed any more. Opens a transaction."""
    with transaction.atomic(durable=True):
        done = Batch.objects.loading().filter(pk=batch_id, rows_queued=F("rows_total"))
        if not done.update(status=Batch.Status.QUEUED, queued_at=Now()):
            return False
        BatchPart.objects.filter(batch_id=batch_id).delete()
    return True


def pause(*, batch_id: int, by: str, reason: str) -> bool:
    """Begin none of its rows from now on; calls under way are finished. False: it was paused, or has ended.

    Opens a transaction.
    """
    with transaction.atomic(durable=True):
        note_if_settled(batch_id)
        done = (
            Batch.objects.begun()
            .filter(pk=batch_id, paused_at=None)
            .update(paused_at=Now(), paused_by=by, reason=reason)
        )
        if done:
            forget_passed(batch_id)
            note(Intervention.Kind.BATCH_PAUSED, about=about(batch_id), by=by, reason=reason)
    return bool(done)


def forget_passed(batch_id: int) -> None:
    """Few rows have been passed over. Those of a paused mass update wait for no turn. Those that others hold stay."""
    mass = OutboxMessage.objects.pending().filter(batch=batch_id, priority=OutboxMessage.Priority.MASS)
    passed = mass.filter(passed_at__isnull=False)
    ids = list(passed.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
    OutboxMessage.objects.filter(pk__in=ids).update(passed_at=None)


def resume(*, batch_id: int, by: str, reason: str) -> bool:
    """Go on. False: it was not paused. Opens a transaction."""
    paused = Batch.objects.filter(pk=batch_id, paused_at__isnull=False)
    with transaction.atomic(durable=True):
        done = paused.update(paused_at=None, paused_by="", reason="")
        if done:
            note(Intervention.Kind.BATCH_RESUMED, about=about(batch_id), by=by, reason=reason)
    return bool(done)


def cancel(*, batch_id: int, by: str, reason: str) -> bool:
    """No row of it is begun any more; `cancel_next` takes the waiting ones out. False: it was cancelled, or has ended.

    Opens a transaction.
    """
    with transaction.atomic(durable=True):
        note_if_settled(batch_id)
        done = (
            Batch.objects.live()
            .filter(pk=batch_id)
            .update(
                status=Batch.Status.CANCELLED,
                cancelled_at=Now(),
                cancelled_by=by,
                reason=reason,
                paused_at=None,
                paused_by="",
            )
        )
        if done:
            BatchPart.objects.filter(batch_id=batch_id).delete()
            note(Intervention.Kind.BATCH_CANCELLED, about=about(batch_id), by=by, reason=reason)
    return bool(done)


def about(batch_id: int) -> str:
    """What an intervention in a mass update is about."""
    return f"mass update {batch_id}"


SETTLED = """
UPDATE crmsync_batch AS b SET settled_at = clock_timestamp()
 WHERE b.settled_at IS NULL AND b.status IN ('queued', 'cancelled')
   AND NOT EXISTS (SELECT FROM crmsync_outboxmessage AS m
                    WHERE m.batch_id = b.id AND m.status IN ('pending', 'claimed'))
"""
# What was taken over by a newer change may come back with it, and is still to be cancelled.
SETTLED_FOR_GOOD = """
UPDATE crmsync_batch AS b SET settled_at = clock_timestamp()
 WHERE b.settled_at IS NULL AND b.status = 'queued' AND b.id = %s
   AND NOT EXISTS (SELECT FROM crmsync_outboxmessage AS m
                    WHERE m.batch_id = b.id AND m.status IN ('pending', 'claimed', 'superseded'))
"""


def note_settled() -> int:
    """Note of every mass update of which no row waits or is being sent any more that it has ended: how many."""
    with connection.cursor() as cursor:
        cursor.execute(SETTLED)
        return cursor.rowcount


def note_if_settled(batch_id: int) -> None:
    """The same of one, so that nobody stops in this minute what has ended."""
    with connection.cursor() as cursor:
        cursor.execute(SETTLED_FOR_GOOD, [batch_id])
