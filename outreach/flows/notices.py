"""Tell reps of their assignments by mail: once each, a burst in one mail, nothing of leads that moved on.

Nothing here is on the road of a lead: what is to be told is worked out from the assignments themselves, by this
sender. A mail is begun by a commit before it is handed over; whatever kills this process after that leaves it in doubt,
and what is in doubt is not sent again.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings
from django.utils import timezone

from outreach.errors import CredentialsRefused, OutreachError, RoadClosed
from outreach.flows.sender import HELD_BY_ANOTHER, JOB_LEASE_S, ROAD_FAULTS_MOST
from outreach.mail.notice import Told, compose_notice
from outreach.mail.outcome import Outcome
from outreach.mail.smtp import Relay
from outreach.models import NoticeMail
from outreach.moves import job_lock
from outreach.moves.notices import (
    BegunNotice,
    all_told,
    begin_again,
    begin_new,
    reap_notices,
    reps_due,
    settle_notice,
    start_telling,
)
from outreach.moves.sending import why_off
from routing.explain import phrase
from routing.models import Assignment, Rep

log = logging.getLogger(__name__)

JOB = "send notices to reps"


@dataclass
class Noticed:
    """What one run did: mails by what came of them, and the assignments in those that were sent. `stopped` says why it
    ended before everything was told; empty: nothing is left.
    """

    told: int = 0
    sent: int = 0
    deferred: int = 0
    refused: int = 0
    in_doubt: int = 0
    reaped: int = 0
    stopped: str = ""


def send_notices(*, worker: str, job: str = JOB) -> Noticed:
    """Tell every rep who is due a notice, for SEND_BUDGET_S seconds at most. One run under a job's name at a time."""
    done = Noticed(reaped=reap_notices())
    if not settings.EMAIL_HOST or not settings.NOTICE_FROM:
        done.stopped = "no relay is configured" if not settings.EMAIL_HOST else "NOTICE_FROM is not set"
        return done
    token = job_lock.take(name=job, worker=worker, lease_s=JOB_LEASE_S)
    if token is None:
        done.stopped = HELD_BY_ANOTHER
        return done
    began, until, faults = timezone.now(), time.monotonic() + settings.SEND_BUDGET_S, 0
    try:
        with Relay() as relay:
            done.stopped = why_off(worker=worker) or ready(relay)
            if not done.stopped:
                start_telling()
                for begun in to_tell(worker):
                    outcome = hand_over(relay, begun)
                    settle_notice(mail_id=begun.mail, outcome=outcome)
                    count(done, begun, outcome)
                    faults = faults + 1 if outcome.fault == "road" or outcome.stops_sending else 0
                    late = "time" if time.monotonic() > until else ""
                    tired = "the relay carries nothing at the moment" if faults >= ROAD_FAULTS_MOST else ""
                    done.stopped = tired or late or why_off(worker=worker) or ready(relay)
                    if done.stopped:
                        break
    finally:
        job_lock.release(name=job, token=token)
    if not done.stopped:
        all_told(before=began)
    log.info("notices worker=%s %s", worker, " ".join(f"{k}={v!r}" for k, v in vars(done).items() if v))
    return done


def to_tell(worker: str) -> Iterator[BegunNotice]:
    """Mails, each begun when it is asked for: first those refused for now, then rep by rep what is new."""
    while again := begin_again(worker=worker):
        yield again
    for rep_id in reps_due():
        while new := begin_new(rep_id=rep_id, worker=worker):
            yield new


def hand_over(relay: Relay, begun: BegunNotice) -> Outcome:
    """Write the mail and hand it to the relay. What cannot be written is refused: nothing of it has left."""
    rep = Rep.objects.get(pk=begun.rep)
    try:
        mail = compose_notice(mail_id=begun.mail, address=rep.email, rep=rep.name, leads=leads_of(begun))
    except (OutreachError, ValueError, LookupError) as problem:
        return Outcome("refused", "compose", None, f"{type(problem).__name__}: {problem}", "content")
    if not relay.takes(mail):
        return Outcome("refused", "compose", None, "the relay does not speak SMTPUTF8", "content")
    return relay.hand_over(mail)


def leads_of(begun: BegunNotice) -> list[Told]:
    """The leads of these assignments, as a rep is told of them."""
    rows = Assignment.objects.filter(pk__in=begun.assignments).select_related("lead", "team").order_by("pk")
    return [
        Told(
            lead=row.lead_id,
            name=str(row.lead),
            company=row.lead.company,
            reach=tuple(filter(None, (row.lead.email, row.lead.phone, row.lead.country))),
            team=row.team.name,
            why=phrase(row.lead, row),
        )
        for row in rows
    ]


def ready(relay: Relay) -> str:
    """Have a connection before anything is begun; otherwise why the run ends here."""
    try:
        relay.ready()
    except (CredentialsRefused, RoadClosed) as closed:
        log.warning("notices stopped reason=%s", closed)
        return str(closed)
    return ""


def count(done: Noticed, begun: BegunNotice, outcome: Outcome) -> None:
    """Count a mail, and what it told."""
    name = "sent" if outcome.verdict == "accepted" else outcome.verdict
    setattr(done, name, getattr(done, name) + 1)
    if outcome.verdict == "accepted":
        done.told += len(begun.assignments)


def waiting_to_be_told() -> int:
    """How many reps a run would write to now, if it may: for a dry run."""
    return len(reps_due()) + NoticeMail.objects.due_again().count()
