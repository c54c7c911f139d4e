"""The crash matrix: a real sender killed, or stopped beyond its lease, at each of eleven points of one mail.

The relay runs in the test and counts what it kept. Senders are stopped by what the test controls (a relay that stalls,
a lock it holds in Postgres), never by a hook in the product. The connection is made before the gate, so a death while
connecting leaves the message due; from the intent on it is in doubt, unless the settlement was committed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.db.models.functions import Now

from crmsync.models import CrmRecord
from outreach.flows.reaping import reap_all
from outreach.flows.sender import send_due
from outreach.models import Claim, Message, SendAttempt, Step
from routing.models import Lead
from tests.database import database_url
from tests.outreach.make import expire, make_campaign, make_leads, switched_on
from tests.outreach.relays import ScriptedRelay, Stall, scripted
from tests.outreach.test_settling import assert_events_play_back

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_S = 60
LARGE = ("all work and no play " * 4 + "\n") * 90_000  # more than the sockets' buffers hold

# what a kill leaves when the dust has settled: the message's status, and how many mails the relay kept
KILLED = {
    "after the claim": ("sent", 1),
    "connecting": ("sent", 1),
    "after the gate": ("in_doubt", 0),
    "at MAIL": ("in_doubt", 0),
    "at RCPT": ("in_doubt", 0),
    "at 354": ("in_doubt", 0),
    "within the body": ("in_doubt", 0),
    "after the dot": ("in_doubt", 1),
    "after the reply": ("sent", 1),  # it had handed the settlement to the server, which finishes what it has
    "within the settlement": ("sent", 1),
    "after the settlement": ("sent", 1),
}
STALLS = {
    "connecting": "connect",
    "after the gate": "before_mail",
    "at MAIL": "mail",
    "at RCPT": "rcpt",
    "at 354": "data",
    "within the body": "body",
    "after the dot": "dot",
}
LOCKS = {
    "after the claim": "LOCK TABLE outreach_step IN ACCESS EXCLUSIVE MODE",
    "after the reply": "SELECT FROM outreach_message FOR NO KEY UPDATE",
    "within the settlement": "LOCK TABLE outreach_outreachevent IN SHARE MODE",
    "after the settlement": "SELECT FROM outreach_claim FOR NO KEY UPDATE",
}


class Holder:
    """A lock held over a connection of its own."""

    def __init__(self, sql: str) -> None:
        self.sql, self.held = sql, connection.copy()
        self.held.inc_thread_sharing()  # taken by the relay's thread, let go by the test's

    def take(self) -> str:
        self.held.set_autocommit(False)
        with self.held.cursor() as cursor:
            cursor.execute(self.sql)
        return "250 queued"

    def let_go(self) -> None:
        if self.held.connection is not None:
            self.held.rollback()
            self.held.close()


@contextmanager
def stopped_at(point: str) -> Iterator[tuple[ScriptedRelay, Callable[[], bool], Callable[[], None]]]:
    """A relay, whether a sender has reached the point, and what lets it go on."""
    if point in STALLS:
        stall = Stall()
        with scripted({STALLS[point]: [stall]}) as relay:
            intent_too = point == "after the gate"
            yield relay, lambda: stall.reached.is_set() and (not intent_too or begun()), stall.go.set
            stall.go.set()
        return
    holder = Holder(LOCKS[point])
    first: list[Any] = [holder.take]
    if point == "after the claim":
        first.pop()()
    with scripted({"dot": first}) as relay:
        yield relay, someone_waits, holder.let_go
        holder.let_go()


def begun() -> bool:
    return SendAttempt.objects.exists()


def someone_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    until = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < until, "it did not come to that"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)


def start_sender(relay: ScriptedRelay) -> subprocess.Popen[str]:
    """`manage.py send_due` in a process of its own, on the test's database and relay."""
    environment = os.environ | {
        "DATABASE_URL": database_url(),
        "SECRET_KEY": django_settings.SECRET_KEY,
        "EMAIL_HOST": "127.0.0.1",
        "EMAIL_PORT": str(relay.port),
        "EMAIL_PHASE_TIMEOUT_S": "20",
        "EMAIL_REPLY_TIMEOUT_S": "20",
        "DB_LOCK_TIMEOUT_MS": "60000",
        "DB_IDLE_TIMEOUT_MS": "1000",
    }
    return subprocess.Popen(
        [sys.executable, "manage.py", "send_due", "--json"],
        env=environment,
        cwd=django_settings.BASE_DIR,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def take_over(settings: Any, relay: ScriptedRelay) -> None:
    """The lease runs out, the reaper comes, and another sender does what is due."""
    expire()
    wait_for(lambda: reap_all().claims >= 0 and not Claim.objects.live().exists())
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", relay.port
    settings.EMAIL_PHASE_TIMEOUT_S = settings.EMAIL_REPLY_TIMEOUT_S = 20
    send_due(worker="another", job="another")


def prepare(point: str, *, leads: int = 1) -> None:
    from outreach.flows.launching import launch

    switched_on()
    campaign = make_campaign(logs_activities=True)
    if point == "within the body":
        Step.objects.update(body=LARGE)
    launch(campaign_id=campaign.pk, leads=[lead.pk for lead in make_leads(leads)], by="test")
    Lead.objects.update(first_assigned_at=Now())


def statuses() -> list[str]:
    return list(Message.objects.order_by("pk").values_list("status", flat=True))


def assert_logged_once_where_sent() -> None:
    """The CRM is told of a sent mail by one version of one task, and of no other."""
    versions = list(CrmRecord.objects.filter(object="Task").values_list("version", flat=True))
    assert versions == [1] * Message.objects.filter(status="sent").count()


def kill_at(reached: Callable[[], bool], relay: ScriptedRelay) -> None:
    """A sender that is killed once it has come so far."""
    process = start_sender(relay)
    try:
        wait_for(reached, process)
    finally:
        process.kill()
        process.communicate()


def stop_beyond_lease_at(
    reached: Callable[[], bool], let_go: Callable[[], None], relay: ScriptedRelay, settings: Any
) -> tuple[str, str]:
    """A sender that stands still once it has come so far, until another has taken over; what it said in the end."""
    process = start_sender(relay)
    try:
        wait_for(reached, process)
        os.kill(process.pid, signal.SIGSTOP)
        let_go()
        take_over(settings, relay)
        os.kill(process.pid, signal.SIGCONT)
        return process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("point", KILLED)
def test_a_sender_killed_there_mails_nobody_twice_and_loses_nobody_i1(point: str, settings: Any) -> None:
    prepare(point)
    with stopped_at(point) as (relay, reached, let_go):
        kill_at(reached, relay)
        let_go()
        wait_for(lambda: not someone_waits())
        take_over(settings, relay)
        assert (Message.objects.get().status, len(relay.kept)) == KILLED[point]
    assert_events_play_back()
    assert_logged_once_where_sent()


@pytest.mark.parametrize("point", KILLED)
def test_a_sender_stopped_there_beyond_its_lease_mails_nobody_twice_i1(point: str, settings: Any) -> None:
    prepare(point)
    with stopped_at(point) as (relay, reached, let_go):
        told = stop_beyond_lease_at(reached, let_go, relay, settings)
        assert (statuses(), len(relay.kept)) == (["sent"], 1), told
    assert_events_play_back()
    assert_logged_once_where_sent()


def test_a_sender_killed_between_two_mails_leaves_both_or_neither_written_i1(settings: Any) -> None:
    """What came of the first is settled with the intent of the second, which had not left."""
    prepare("within the settlement", leads=2)
    with stopped_at("within the settlement") as (relay, reached, let_go):
        kill_at(reached, relay)
        let_go()
        wait_for(lambda: statuses() == ["sent", "begun"])
        take_over(settings, relay)
        assert (statuses(), len(relay.kept)) == (["sent", "in_doubt"], 1)
    assert_events_play_back()


def test_a_sender_stopped_between_two_mails_beyond_its_lease_mails_nobody_twice_i1(settings: Any) -> None:
    prepare("after the dot", leads=2)
    with stopped_at("after the dot") as (relay, reached, let_go):
        told = stop_beyond_lease_at(reached, let_go, relay, settings)
        assert (statuses(), len(relay.kept)) == (["sent", "sent"], 2), told
    assert_events_play_back()
