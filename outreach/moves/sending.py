"""Switch all sending off and on, and notice that the database is not the one it was.

A restored backup, or a replica promoted before it had everything, has forgotten mails that went out. The database tells
its cluster and timeline; while they differ from what was written down, nothing is sent until a person confirms.
"""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import connection, transaction

from outreach.mail.road import configured
from outreach.mail.storable import storable
from outreach.models import SendingState
from outreach.moves.events import Kind, Layer, tell


def why_off(*, worker: str) -> str:
    """Why nothing may be sent; empty where it may. Writes down the epoch the first time it sees one.

    Opens a transaction.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(EPOCH)
        (epoch,) = cursor.fetchone()
        SendingState.objects.bulk_create([SendingState(pk=1)], ignore_conflicts=True)
        state = SendingState.objects.select_for_update(no_key=True).get(pk=1)
        if not state.epoch:
            SendingState.objects.filter(pk=1).update(epoch=epoch)
        elif state.epoch != epoch and not state.off_because:
            reason = "the database was restored or failed over"
            SendingState.objects.filter(pk=1).update(off_because=reason, off_until=None)
            tell(kind=Kind.STOPPED, layer=Layer.GATE, worker=worker, reason=reason)
            return reason
        cursor.execute(OFF)
        (off_because,) = cursor.fetchone()
    return str(off_because)


@dataclass(frozen=True)
class Seen:
    """Why sending is off (empty: it is on), until when; whether the database was restored; whether there is a relay,
    and whether that is only this machine's mailbox.
    """

    off: str
    until: datetime | None
    restored: bool
    relay: bool
    stays_here: bool


def seen() -> Seen:
    """Whether mail may be sent, for people to look at: unlike `why_off` it writes nothing down."""
    with connection.cursor() as cursor:
        cursor.execute(EPOCH)
        (epoch,) = cursor.fetchone()
        cursor.execute(SEEN)
        off, until, known = cursor.fetchone() or ("", None, "")
    restored = known not in ("", epoch)
    off = off or ("the database was restored or failed over" if restored else "")
    return Seen(off, until, restored, configured(), settings.MAIL_STAYS_HERE)


def switch_off(*, because: str, worker: str, for_s: float | None = None) -> None:
    """Send nothing, for so many seconds or until a person switches it on. Opens a transaction.

    What a person decides is not undone by a shorter stop.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(SWITCH_OFF, {"because": storable(because[:200]), "for": for_s})
        if cursor.rowcount:
            tell(kind=Kind.STOPPED, layer=Layer.GATE, worker=worker, reason=because)


def switch_on(*, by: str, reason: str) -> None:
    """Send again, and take this database for the true one. Opens a transaction."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(EPOCH)
        (epoch,) = cursor.fetchone()
        SendingState.objects.update_or_create(pk=1, defaults={"off_because": "", "off_until": None, "epoch": epoch})
        tell(kind=Kind.RESOLVED, layer=Layer.PERSON, worker=by, reason=f"sending on: {reason}")


EPOCH = """
    SELECT format('%s/%s/%s', (SELECT system_identifier FROM pg_control_system()),
                  (SELECT timeline_id FROM pg_control_checkpoint()),
                  (SELECT oid FROM pg_database WHERE datname = current_database()))
"""
OFF = """
    SELECT CASE WHEN off_until <= clock_timestamp() THEN '' ELSE off_because END FROM outreach_sendingstate WHERE id = 1
"""
SEEN = """
    SELECT CASE WHEN off_until <= clock_timestamp() THEN '' ELSE off_because END,
           CASE WHEN off_until > clock_timestamp() THEN off_until END, epoch
      FROM outreach_sendingstate WHERE id = 1
"""
SWITCH_OFF = """
    INSERT INTO outreach_sendingstate AS state (id, off_because, off_until)
    VALUES (1, %(because)s, clock_timestamp() + make_interval(secs => %(for)s))
    ON CONFLICT (id) DO UPDATE SET off_because = excluded.off_because, off_until = excluded.off_until
     WHERE state.off_because = '' OR state.off_until IS NOT NULL
"""
