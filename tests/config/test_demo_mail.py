"""The demo's mails: two real senders, a real mailbox, and a count that sees a second mail."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.demo.mail import counted, mail_leads
from config.demo.run import _mailed_once
from outreach.models import Campaign
from tests.config.living import free_port, running
from tests.outreach.make import make_leads

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def box(tmp_path: Path, settings: Any) -> Iterator[Path]:
    port, folder = free_port(), tmp_path / "mails"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.MAIL_STAYS_HERE = "127.0.0.1", port, True
    settings.MAILBOX_FOLDER = str(folder)
    command = (sys.executable, "-m", "config.mailbox", "--port", str(port), "--folder", str(folder))
    with running(*command, log=tmp_path / "log"):
        yield folder


def test_two_senders_mail_every_lead_once_and_a_second_mail_is_seen(box: Path) -> None:
    leads = make_leads(12)
    mailed = mail_leads([lead.uid for lead in leads])
    assert mailed is not None and not mailed.failures
    assert (mailed.wanted, mailed.mailed, mailed.mailed_twice) == (12, 12, 0)
    assert sum(mailed.workers.values()) == 12 and len(mailed.workers) == 2
    assert _mailed_once(mailed)

    first = next((box / "new").iterdir())
    shutil.copy(first, first.with_name("again"))
    again = counted(Campaign.objects.get(), mailed)
    assert (again.mailed, again.mailed_twice) == (12, 1) and not _mailed_once(again)


def test_a_demo_beside_a_real_relay_mails_nobody(settings: Any) -> None:
    settings.MAIL_STAYS_HERE = False
    assert mail_leads([lead.uid for lead in make_leads(1)]) is None and not Campaign.objects.exists()
    assert _mailed_once(None)
