"""Send what is due: claim a batch, and for each mail pass the gate, hand it over, and settle what came of it.

No transaction is open while the relay is spoken to. Whatever kills this process, what it had not begun is due again
after its lease, and what it had begun waits in doubt.
"""

import logging
import os
import socket
import time
import uuid
from dataclasses import dataclass, field

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from outreach.errors import CredentialsRefused, RoadClosed
from outreach.flows.preparing import Prepared, prepare
from outreach.mail.compose import Mail
from outreach.mail.outcome import Outcome
from outreach.mail.road import Road, chosen_road, configured
from outreach.models import Campaign
from outreach.moves import job_lock
from outreach.moves.claims import Held, claim_batch, end_claim
from outreach.moves.gate import Begun, Intent, Refused, begin
from outreach.moves.onward import Handed, settle_and_begin
from outreach.moves.sending import switch_off, why_off
from outreach.moves.settling import settle
from outreach.moves.unsendable import give_up

log = logging.getLogger(__name__)

JOB = "send due campaign mail"
HELD_BY_ANOTHER = "another run holds the job lock"
JOB_LEASE_S = 120
"""Renewed between mails. A slow reply may outlast it; then two run side by side, and the claims keep them apart."""
SETTLE_WAITS_S = (0.1, 1.0, 5.0)
ROAD_FAULTS_MOST = 3
"""After so many mails in a row that the connection did not carry, the relay is left alone until the next run."""


@dataclass
class Sent:
    """What one run did. `stopped` says why it ended before everything due was done; empty: nothing is left."""

    sent: int = 0
    deferred: int = 0
    refused: int = 0
    in_doubt: int = 0
    turned_away: int = 0
    given_up: int = 0
    released: int = 0
    stopped: str = ""
    _road_faults: int = field(default=0, repr=False)

    def count(self, outcome: Outcome) -> None:
        name = "sent" if outcome.verdict == "accepted" else outcome.verdict
        setattr(self, name, getattr(self, name) + 1)
        self._road_faults = self._road_faults + 1 if outcome.fault == "road" else 0


def worker_name() -> str:
    """This process, so that it can be found: host, process id, and a part that no other has had."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


@dataclass
class Run:
    """One sender at work: its connection, when it begins nothing new, the job lock it holds, what it has done."""

    worker: str
    relay: Road
    until: float
    job: str
    job_token: uuid.UUID
    renewed_at: float
    done: Sent
    handed: Handed | None = None  # the last mail of the batch at hand, while it waits to be settled with the next

    def must_stop(self) -> str:
        """Why nothing more may be begun by this run; empty where it may go on. Keeps the job lock."""
        now = time.monotonic()
        if self.done.stopped or now > self.until:
            return self.done.stopped or "time"
        if now - self.renewed_at > JOB_LEASE_S / 4:
            settle_last(self)
            if not job_lock.renew(name=self.job, token=self.job_token, lease_s=JOB_LEASE_S):
                return "the job lock was lost"
            self.renewed_at = now
        return ""


def send_due(*, worker: str, job: str = JOB, budget_s: float | None = None, batch: int | None = None) -> Sent:
    """Send due mails of all running campaigns for `budget_s` seconds, in batches of `batch`, and say what was done.

    One run under a job's name works at a time; another goes home at once. Senders under different names may run side by
    side: their claims are disjoint.
    """
    done = Sent()
    if not configured():
        done.stopped = "no relay is configured"
        return done
    token = job_lock.take(name=job, worker=worker, lease_s=JOB_LEASE_S)
    if token is None:
        done.stopped = HELD_BY_ANOTHER
        log.info("sender goes home job=%r worker=%s reason=job lock", job, worker)
        return done
    now = time.monotonic()
    until = now + (settings.SEND_BUDGET_S if budget_s is None else budget_s)
    try:
        with chosen_road() as relay:
            run = Run(worker, relay, until, job, token, now, done)
            send_campaigns(run, batch=batch or settings.SEND_BATCH)
    finally:
        job_lock.release(name=job, token=token)
    log.info("sender done worker=%s %s", worker, " ".join(f"{k}={v!r}" for k, v in vars(done).items() if v))
    return done


def send_campaigns(run: Run, *, batch: int) -> None:
    """Claim and send, campaign by campaign, until nothing is due or something stops the run."""
    more = True
    while more:
        more = False
        for campaign_id in Campaign.objects.running().order_by("pk").values_list("pk", flat=True):
            run.done.stopped = run.must_stop() or why_off(worker=run.worker)
            if run.done.stopped:
                return
            held = claim_batch(campaign_id=campaign_id, worker=run.worker, size=batch, lease_s=settings.CLAIM_LEASE_S)
            if held is not None:
                more = True
                send_batch(run, held=held)


def send_batch(run: Run, *, held: Held) -> None:
    """Send a claimed batch one by one, and give back what is left of it when something stops us."""
    stop = ""
    try:
        for mail in prepare(held=held):
            run.done.stopped = run.must_stop()
            stop = stop or run.done.stopped
            if stop:
                break
            stop = send_one(run, mail=mail, held=held)
    finally:
        settle_last(run)
        run.done.released += end_claim(token=held.token, reason=stop)


def send_one(run: Run, *, mail: Prepared, held: Held) -> str:
    """Send one message of the batch and return why the batch must stop, or nothing.

    The connection is made before the gate, so that a relay that is down or refuses us costs no message anything. What
    the relay said of the last mail is settled before anything that takes time.
    """
    if mail.problem or mail.mail is None:
        return cannot_send(run, mail=mail, held=held, reason=mail.problem)
    if not run.relay.is_open:
        settle_last(run)
    if stop := open_road(run):
        return stop
    if not run.relay.takes(mail.mail):
        return cannot_send(run, mail=mail, held=held, reason="the relay does not speak SMTPUTF8")
    gate = pass_gate(run, message_id=mail.message, mail=mail.mail, token=held.token)
    if not isinstance(gate, Begun):
        run.done.turned_away += 1
        log.info("turned away message=%s worker=%s reason=%r", mail.message, run.worker, gate.reason)
        return gate.reason if gate.stop else ""
    outcome = run.relay.hand_over(mail.mail)
    run.handed = Handed(held.token, gate.attempt, outcome)
    if not run.handed.may_wait:
        settle_last(run)
    run.done.count(outcome)
    if outcome.stops_sending:
        stop_everybody(run, because=f"the relay refuses us: {outcome.code}")  # logged: its reply may name the recipient
    elif run.done._road_faults >= ROAD_FAULTS_MOST:
        run.done.stopped = "the relay carries nothing at the moment"
    return run.done.stopped


def pass_gate(run: Run, *, message_id: int, mail: Mail, token: uuid.UUID) -> Begun | Refused:
    """Ask the gate, and in the same breath settle the mail before, if there is one."""
    intent = Intent(message_id=message_id, mail_id=mail.mail_id, digest=mail.digest, subject=mail.subject)
    if run.handed is None:
        return begin(token=token, intent=intent, worker=run.worker)
    gate = settle_and_begin(handed=run.handed, intent=intent, worker=run.worker)
    run.handed = None
    return gate


def settle_last(run: Run) -> None:
    """Settle the mail that was handed over last, if it is not yet."""
    if run.handed is not None:
        settle_surely(run.handed, worker=run.worker)
        run.handed = None


def settle_surely(handed: Handed, *, worker: str) -> None:
    """Settle, over a fresh connection where the database dropped ours: what is known now nobody else will know later.

    Doing it twice is harmless. Raises the database's error after the last try; then the try is left to the reaper.
    """
    for wait_s in (*SETTLE_WAITS_S, None):
        try:
            settle(attempt_id=handed.attempt, outcome=handed.outcome, worker=worker, token=handed.token)
            return
        except (OperationalError, InterfaceError) as fault:
            if wait_s is None:
                raise
            log.warning("settle again attempt=%s worker=%s fault=%s", handed.attempt, worker, type(fault).__name__)
            connection.close()
            time.sleep(wait_s)


def cannot_send(run: Run, *, mail: Prepared, held: Held, reason: str) -> str:
    """Give up a message that no mail can be made of; the batch goes on."""
    run.done.given_up += give_up(token=held.token, message_id=mail.message, worker=run.worker, reason=reason)
    return ""


def open_road(run: Run) -> str:
    """Have a connection; otherwise say why the run ends here."""
    try:
        run.relay.ready()
    except CredentialsRefused as refusal:
        stop_everybody(run, because=str(refusal))
    except RoadClosed as closed:
        run.done.stopped = str(closed)
        log.warning("sender stopped worker=%s reason=%s", run.worker, closed)
    return run.done.stopped


def stop_everybody(run: Run, *, because: str) -> None:
    """What the relay holds against us, not against a recipient, stops every sender for a while and no lead."""
    run.done.stopped = because
    switch_off(because=because, worker=run.worker, for_s=settings.SENDER_STOP_S)
    log.error("sending stopped worker=%s reason=%s", run.worker, because)
