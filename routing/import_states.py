"""Start, pause, cancel, claim and end an import. Each is one guarded update; nought rows is an answer."""

import uuid
from collections.abc import Sequence
from datetime import timedelta

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from routing.errors import ImportTaken
from routing.models import Import

LEASE = timedelta(seconds=60)
"""How long an import stays with a process that says nothing: longer than reading to where it goes on may take."""
Status = Import.Status


def start(*, import_id: int) -> bool:
    """Let a received, paused or failed import run; False if it is none of these."""
    found = Import.objects.filter(pk=import_id, status__in=Import.STARTABLE)
    return bool(
        found.update(
            status=Status.RUNNING,
            started_at=Coalesce("started_at", Now()),
            ended_at=None,
            problem="",
            claim=None,
            leased_until=None,
        )
    )


def pause(*, import_ids: Sequence[int]) -> int:
    """Stop these running imports after the chunk in hand, until somebody resumes them. Return how many."""
    found = Import.objects.filter(pk__in=import_ids, status=Status.RUNNING)
    return found.update(status=Status.PAUSED, claim=None, leased_until=None)


def cancel(*, import_ids: Sequence[int]) -> int:
    """Stop these imports for good; what is in stays in. Return how many; the others had ended."""
    found = Import.objects.filter(pk__in=import_ids, status__in=Import.OPEN)
    return found.update(status=Status.CANCELLED, ended_at=Now(), claim=None, leased_until=None)


def claim(*, import_id: int) -> uuid.UUID:
    """Take a running import that nobody works on. Raises ImportTaken.

    The lease ends a claim whose holder died. A holder who is only slow loses it, too, and learns so at the next chunk.
    """
    token = uuid.uuid4()
    found = unattended().filter(pk=import_id)
    if not found.update(claim=token, leased_until=Now() + LEASE):
        raise ImportTaken
    return token


def unattended() -> QuerySet[Import]:
    """Running imports that nobody works on, or whose worker has died."""
    return Import.objects.filter(Q(claim=None) | Q(leased_until__lt=Now()), status=Status.RUNNING)


def release(*, import_id: int, token: uuid.UUID) -> None:
    """Let somebody else go on with it."""
    Import.objects.filter(pk=import_id, claim=token).update(claim=None, leased_until=None)


def hold(*, import_id: int, token: uuid.UUID, position: int) -> Import:
    """Lock the import for one chunk. Call inside a transaction. Raises ImportTaken.

    Proves: it still runs, is ours, and nobody has got further. Costs: whoever pauses or cancels it waits for the chunk.
    """
    found = Import.objects.select_for_update(no_key=True).filter(
        pk=import_id, status=Status.RUNNING, claim=token, position=position
    )
    held = found.first()
    if held is None:
        raise ImportTaken
    return held


def advance(*, import_id: int, created: int, touched: int, duplicate: int, rejected: int) -> None:
    """Count a chunk's verdicts and go on behind it. Call inside a transaction, with the import held."""
    Import.objects.filter(pk=import_id).update(
        position=F("position") + created + touched + duplicate + rejected,
        created=F("created") + created,
        touched=F("touched") + touched,
        duplicate=F("duplicate") + duplicate,
        rejected=F("rejected") + rejected,
        leased_until=Now() + LEASE,
    )


def count(*, import_id: int, token: uuid.UUID, total: int) -> None:
    """Note how many records the file has."""
    Import.objects.filter(pk=import_id, claim=token).update(total=total, leased_until=Now() + LEASE)


def finish(*, import_id: int, token: uuid.UUID) -> bool:
    """End an import whose last row is in; False if it was taken, paused or cancelled meanwhile."""
    found = Import.objects.filter(pk=import_id, claim=token, status=Status.RUNNING)
    return bool(
        found.update(status=Status.FINISHED, total=F("position"), ended_at=Now(), claim=None, leased_until=None)
    )


def fail(*, import_id: int, token: uuid.UUID, problem: str) -> bool:
    """End an import that cannot go on, with the reason."""
    found = Import.objects.filter(pk=import_id, claim=token, status=Status.RUNNING)
    return bool(
        found.update(status=Status.FAILED, problem=problem[:300], ended_at=Now(), claim=None, leased_until=None)
    )
