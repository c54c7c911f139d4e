"""A person sends a dead message again: what is left of it, as a new version.

Fields that any newer version of the record set are left out, whatever became of that version: the newer value is the
one that counts, and sending the older would take it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from crmsync import lockkeys, outbox
from crmsync.models import Lane, Operation, OutboxMessage
from crmsync.moves.settle import lock_records


@dataclass(frozen=True, slots=True)
class Retried:
    """Messages sent again; those of which newer versions had set everything; those that were not dead (any more)."""

    retried: int = 0
    skipped_newer: int = 0
    skipped_not_dead: int = 0


def retry_dead(*, message_ids: Sequence[int], by: str, reason: str) -> Retried:
    """Send these dead messages again, the oldest version of a record first. `by` is who asked."""
    retried = newer = 0
    with transaction.atomic(durable=True):
        asked = OutboxMessage.objects.filter(pk__in=message_ids)
        lock_records(asked.values_list("record_id", flat=True))
        # Proves: still dead until we commit. Costs: a second person who retries the same waits, and then finds none.
        dead = list(
            asked.dead()
            .select_related("record")
            .order_by("record__object", "record__external_id", "version")
            .select_for_update(no_key=True, of=("self",))
        )
        for message in dead:
            if send_again(message=message, by=by, reason=reason):
                retried += 1
            else:
                newer += 1
    return Retried(retried, newer, len(set(message_ids)) - len(dead))


def send_again(*, message: OutboxMessage, by: str, reason: str) -> bool:
    """False where newer versions had set everything. Call inside a transaction that holds record and message."""
    record = message.record
    since = list(newer_than(message))
    left = what_is_left(message, since)
    if left is None:
        OutboxMessage.objects.dead().filter(pk=message.pk).update(
            status=OutboxMessage.Status.SUPERSEDED, superseded_by=since[-1]
        )
        return False
    again = 0
    for part in left:
        again = outbox.enqueue(
            object=record.object,
            external_id=record.external_id,
            fields=part.fields,
            parents=part.parents,
            priority=OutboxMessage.Priority(message.priority),
            operation=Operation(part.operation),
        )
    OutboxMessage.objects.filter(pk=again).update(requested_by=by, reason=reason)
    OutboxMessage.objects.dead().filter(pk=message.pk).update(status=OutboxMessage.Status.RETRIED, superseded_by=again)
    lift_backoff(message)
    return True


def newer_than(message: OutboxMessage) -> QuerySet[OutboxMessage]:
    """The later versions of its record, in order, without those that somebody took back."""
    later = OutboxMessage.objects.filter(record=message.record, version__gt=message.version).order_by("version")
    return later.exclude(status=OutboxMessage.Status.CANCELLED)


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is left to be sent of a dead message."""

    operation: str
    fields: dict[str, Any]
    parents: list[dict[str, str]]


def what_is_left(message: OutboxMessage, since: Sequence[OutboxMessage]) -> list[Part] | None:
    """What no newer version of its record has set, in the order in which it is to be sent; None: nothing.

    A record that was written again since then is not deleted, and a deleted one is not written again.
    """
    if any(newer.operation == Operation.DELETE and newer.afterwards is None for newer in since):
        return None
    set_since = {name for newer in since for name in newer.fields}
    named_since = {parent["relation"] for newer in since for parent in newer.parents}
    fields = {name: value for name, value in message.fields.items() if name not in set_since}
    parents = [parent for parent in message.parents if parent["relation"] not in named_since]
    deletes = message.operation == Operation.DELETE
    writes = message.afterwards if deletes else message.operation
    parts = [Part(Operation.DELETE, {}, [])] if deletes and not since else []
    if writes and (fields or parents or not since):
        parts.append(Part(writes, fields, parents))
    return parts or None


def lift_backoff(message: OutboxMessage) -> None:
    """Who retries says that whatever held the lock is gone: do not make them wait for the rest of the backoff.

    Only lanes that no worker and no person holds now; a quarantine stays.
    """
    record = message.record
    keys = {lockkeys.record_key(record.is_a, record.external_id)}
    for parent in (*message.parents, *record.parents):
        keys.add(lockkeys.key_of(parent, {}))
    free = Lane.objects.filter(key__in=keys, claim=None, held_until=None, not_before__gt=Now()).order_by("key")
    locked = list(free.select_for_update(skip_locked=True, no_key=True).values_list("key", flat=True))
    Lane.objects.filter(key__in=locked).update(not_before=Now())
