"""A sender of notices killed between begin and settlement: nobody is told twice, and what is unknown is shown."""

import os
import subprocess
import sys
from typing import Any

import pytest
from django.conf import settings as django_settings

from outreach.flows.notices import send_notices
from outreach.models import JobLock, Notice, NoticeMail
from outreach.moves.notices import reap_notices
from tests.database import database_url
from tests.drills.test_outreach_kills import Holder, someone_waits, wait_for
from tests.make import make_team
from tests.outreach.relays import ScriptedRelay, Stall, scripted
from tests.outreach.test_notices import FROM, assigned, notices_at

pytestmark = pytest.mark.django_db(transaction=True)

# where the sender is killed: what its mail comes to, and how many mails the relay kept in the end
KILLED = {
    "connecting": ("sent", 1),
    "after the begin": ("in_doubt", 0),
    "at 354": ("in_doubt", 0),
    "after the dot": ("in_doubt", 1),
    "within the settlement": ("in_doubt", 1),
}
STALLS = {"connecting": "connect", "after the begin": "before_mail", "at 354": "data", "after the dot": "dot"}


def start_sender(relay: ScriptedRelay) -> subprocess.Popen[str]:
    """`manage.py send_notices` in a process of its own."""
    environment = os.environ | {
        "DATABASE_URL": database_url(),
        "SECRET_KEY": django_settings.SECRET_KEY,
        "NOTICE_FROM": FROM,
        "EMAIL_HOST": "127.0.0.1",
        "EMAIL_PORT": str(relay.port),
        "EMAIL_PHASE_TIMEOUT_S": "20",
        "EMAIL_REPLY_TIMEOUT_S": "20",
        "DB_LOCK_TIMEOUT_MS": "60000",
        "DB_IDLE_TIMEOUT_MS": "1000",
    }
    words = [sys.executable, "manage.py", "send_notices", "--json"]
    return subprocess.Popen(
        words, env=environment, cwd=django_settings.BASE_DIR, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("point", KILLED)
def test_a_sender_killed_there_tells_nobody_twice(point: str, settings: Any) -> None:
    stall = Stall()
    holder = Holder("SELECT FROM outreach_noticemail FOR NO KEY UPDATE")
    script: Any = {STALLS[point]: [stall]} if point in STALLS else {"dot": [holder.take]}
    with scripted(script) as relay:
        notices_at(settings, relay.port)
        turns = assigned(make_team(reps=1), 3)

        def reached() -> bool:
            if point not in STALLS:
                return someone_waits()
            return stall.reached.is_set() and (point != "after the begin" or NoticeMail.objects.exists())

        process = start_sender(relay)
        try:
            wait_for(reached, process)
        finally:
            process.kill()
            process.communicate()
        stall.go.set()
        holder.let_go()
        NoticeMail.objects.update(begun_at="2026-01-01T00:00:00Z")
        JobLock.objects.update(lease_until="2026-01-01T00:00:00Z")
        wait_for(lambda: reap_notices() >= 0 and not NoticeMail.objects.filter(status="begun").exists())
        settings.EMAIL_PHASE_TIMEOUT_S = settings.EMAIL_REPLY_TIMEOUT_S = 20
        send_notices(worker="another", job="another")
        assert (NoticeMail.objects.get().status, len(relay.kept)) == KILLED[point]
    assert Notice.objects.count() == len(turns)
