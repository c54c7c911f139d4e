"""Begin, settle and reap notices to reps: each assignment once, and none of a lead that has moved on."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from outreach.mail.outcome import Outcome
from outreach.mail.timing import longest_handover_s
from outreach.models import NoticeMail, SendingState

MOST = 50
"""Leads in one mail at most; the rest of a burst follows in the next."""
OLD_H = 72
"""Hours after which an assignment is no news any more, as when the relay was away over a weekend."""
LATE_COMMIT_S = 600
"""No transaction that assigns a lead stays open for so long: the database's own time limits are far shorter."""


@dataclass(frozen=True)
class BegunNotice:
    """A mail whose intent is committed, and the assignments it tells of, the oldest first."""

    mail: int
    rep: int
    assignments: tuple[int, ...]


def start_telling() -> None:
    """The first time ever, set the beginning: what was assigned before is not told of."""
    SendingState.objects.filter(pk=1, notices_since=None).update(notices_since=Now())


def reps_due() -> list[int]:
    """The reps who have something to be told, whoever waits longest first."""
    with connection.cursor() as cursor:
        cursor.execute(REPS, {"old": OLD_H})
        return [rep for rep, _ in cursor.fetchall()]


def begin_new(*, rep_id: int, worker: str) -> BegunNotice | None:
    """Commit the intent to tell a rep of up to MOST current assignments; None where there is nothing to tell.

    Opens a transaction. The lock on the assignments proves that none of them ends before our commit; whoever ends one
    waits milliseconds, and another sender skips them. Should two senders all the same mean the same assignment, the
    unique index lets one of them have it.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('synchronous_commit', 'on', true)")
        cursor.execute(LOCK_NEW, {"rep": rep_id, "most": MOST, "old": OLD_H})
        ids = [pk for (pk,) in cursor.fetchall()]
        if not ids:
            return None
        mail = NoticeMail.objects.create(rep_id=rep_id, worker=worker)
        cursor.execute(TAKE, {"mail": mail.pk, "ids": ids})
        taken = sorted(pk for (pk,) in cursor.fetchall())
        if not taken:
            transaction.set_rollback(True)
            return None
    return BegunNotice(mail.pk, rep_id, tuple(taken))


def begin_again(*, worker: str) -> BegunNotice | None:
    """Commit the intent to hand over a mail once more that the relay refused for now; None where none is due.

    Opens a transaction. Assignments that ended meanwhile are left out; a mail of which none is left is dropped.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        due = NoticeMail.objects.due_again().order_by("begun_at").select_for_update(skip_locked=True, no_key=True)
        for mail in due[:MOST]:
            cursor.execute(LOCK_AGAIN, {"mail": mail.pk})
            ids = [pk for (pk,) in cursor.fetchall()]
            row = NoticeMail.objects.filter(pk=mail.pk)
            if not ids:
                row.update(status=NoticeMail.Status.DROPPED, due_at=None, settled_at=Now())
                continue
            row.update(status=NoticeMail.Status.BEGUN, due_at=None, begun_at=Now(), tries=F("tries") + 1, worker=worker)
            return BegunNotice(mail.pk, mail.rep_id, tuple(ids))
    return None


def settle_notice(*, mail_id: int, outcome: Outcome) -> bool:
    """Write down what came of a hand-over; False where it was settled already. Opens a transaction.

    Refused so often it is refused for good. A report that comes after the reaper settles the doubt.
    """
    Status = NoticeMail.Status
    with transaction.atomic(durable=True):
        open_ones = NoticeMail.objects.filter(pk=mail_id, status__in=NoticeMail.OPEN)
        mail = open_ones.select_for_update(no_key=True).first()
        if mail is None:
            return False
        told = {"phase": outcome.phase, "code": outcome.code, "reply": outcome.reply[:1_000]}
        again = outcome.verdict == "deferred" and mail.tries < settings.SEND_ATTEMPTS_MOST
        if outcome.verdict == "in_doubt":
            open_ones.update(status=Status.IN_DOUBT, **told)
        elif again:
            wait = min(settings.SEND_BACKOFF_FIRST_S * 2 ** (mail.tries - 1), settings.SEND_BACKOFF_CAP_S)
            with connection.cursor() as cursor:
                cursor.execute("SELECT clock_timestamp() + make_interval(secs => %s)", [wait])
                (due_at,) = cursor.fetchone()
            open_ones.update(status=Status.DEFERRED, due_at=due_at, **told)
        else:
            status = Status.SENT if outcome.verdict == "accepted" else Status.REFUSED
            open_ones.update(status=status, settled_at=Now(), **told)
    return True


def reap_notices() -> int:
    """Put in doubt what was begun so long ago that nobody can still be at it. Return how many."""
    with connection.cursor() as cursor:
        cursor.execute(REAP, {"after": longest_handover_s() + LATE_COMMIT_S})
        return int(cursor.rowcount)


def all_told(*, before: datetime) -> None:
    """Note that what was assigned by then is told of, so that nobody looks through it again."""
    with connection.cursor() as cursor:
        cursor.execute(ADVANCE, {"before": before, "late": LATE_COMMIT_S})


# A current assignment without a notice, of a team and a rep who want notices.
DUE = """
      FROM routing_assignment a
      JOIN routing_membership m ON m.id = a.membership_id
      JOIN routing_rep r ON r.id = m.rep_id AND r.notices
      JOIN routing_team t ON t.id = a.team_id AND t.notices
      JOIN outreach_sendingstate s ON s.id = 1
     WHERE a.ended_at IS NULL AND a.assigned_at >= s.notices_since
       AND a.assigned_at >= clock_timestamp() - make_interval(hours => %(old)s)
       AND NOT EXISTS (SELECT FROM outreach_notice n WHERE n.assignment_id = a.id)
"""
REPS = f"SELECT m.rep_id, min(a.id) {DUE} GROUP BY 1 ORDER BY 2"
LOCK_NEW = f"SELECT a.id {DUE} AND m.rep_id = %(rep)s ORDER BY a.id LIMIT %(most)s FOR NO KEY UPDATE OF a SKIP LOCKED"
TAKE = """
    INSERT INTO outreach_notice (assignment_id, mail_id) SELECT id, %(mail)s FROM unnest(%(ids)s::bigint[]) AS a(id)
    ON CONFLICT (assignment_id) DO NOTHING RETURNING assignment_id
"""
LOCK_AGAIN = """
    SELECT a.id FROM outreach_notice n JOIN routing_assignment a ON a.id = n.assignment_id
     WHERE n.mail_id = %(mail)s AND a.ended_at IS NULL ORDER BY a.id FOR NO KEY UPDATE OF a
"""
REAP = """
    UPDATE outreach_noticemail SET status = 'in_doubt'
     WHERE status = 'begun' AND begun_at < clock_timestamp() - make_interval(secs => %(after)s)
"""
ADVANCE = """
    UPDATE outreach_sendingstate
       SET notices_since = greatest(notices_since, %(before)s - make_interval(secs => %(late)s))
     WHERE id = 1
"""
