"""Deeds by hand: a lane held and released, the org stopped and resumed; each noted with who and why."""

from datetime import datetime

from django.db import connection, transaction
from django.db.models.functions import Now

from crmsync.errors import WrongState
from crmsync.models import Intervention, Lane, OrgState, OutboxMessage

Kind = Intervention.Kind


def note(
    kind: Kind, *, by: str, reason: str, about: str = "", until: datetime | None = None, count: int | None = None
) -> None:
    """Write down who did what and why. Call inside the transaction of the deed."""
    Intervention.objects.create(kind=kind, about=about, by=by, reason=reason, until=until, count=count)


HOLD = """
INSERT INTO crmsync_lane AS l (key, not_before, held_until, held_by, held_reason)
SELECT %(key)s, %(until)s, %(until)s, %(by)s, %(reason)s WHERE %(until)s > clock_timestamp()
ON CONFLICT (key) DO UPDATE SET held_until = excluded.held_until, held_by = excluded.held_by,
    held_reason = excluded.held_reason, not_before = greatest(l.not_before, excluded.not_before)
"""


def hold(*, key: str, until: datetime, by: str, reason: str) -> None:
    """Keep a lane closed until then; a call under way is finished. Opens a transaction.

    Raises WrongState for a time that has passed.
    """
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute(HOLD, {"key": key, "until": until, "by": by, "reason": reason})
            if not cursor.rowcount:
                raise WrongState("The time until which to hold it has passed.")
        note(Kind.HELD, about=key, by=by, reason=reason, until=until)


def release(*, key: str, by: str, reason: str) -> bool:
    """Open a held lane, and have what waited for it sent now. False: nobody held it. Opens a transaction."""
    with transaction.atomic(durable=True):
        lane = Lane.objects.filter(key=key, held_until__gt=Now()).select_for_update(no_key=True).first()
        if lane is None:
            return False
        # What was put off waits until exactly the moment at which the lane would have opened.
        waiting = OutboxMessage.objects.pending().filter(
            priority__in=OutboxMessage.Priority.values, due_at=lane.not_before
        )
        put_off = list(
            waiting.order_by("pk").select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True)
        )
        OutboxMessage.objects.filter(pk__in=put_off).update(due_at=Now())
        Lane.objects.filter(key=key).update(held_until=None, held_by="", held_reason="", not_before=Now())
        note(Kind.RELEASED, about=key, by=by, reason=reason)
    return True


def stop_org(*, by: str, reason: str) -> bool:
    """Begin no call to the org from now on; those under way are finished. False: it was stopped already.

    Opens a transaction.
    """
    with transaction.atomic(durable=True):
        OrgState.objects.get_or_create(pk=1)
        done = OrgState.objects.filter(stopped_at=None).update(stopped_at=Now(), stopped_by=by, stopped_reason=reason)
        if done:
            note(Kind.STOPPED, by=by, reason=reason)
    return bool(done)


def resume_org(*, by: str, reason: str) -> bool:
    """Write to the org again; a pause of Rota's own ends, too. False: it was writing. Opens a transaction."""
    with transaction.atomic(durable=True):
        state = OrgState.objects.select_for_update(no_key=True).first()
        if state is None or not (state.stopped_at or state.paused_until):
            return False
        OrgState.objects.filter(pk=1).update(
            stopped_at=None, stopped_by="", stopped_reason="", paused_until=None, paused_reason="", failures=0
        )
        note(Kind.RESUMED, by=by, reason=reason)
    return True
