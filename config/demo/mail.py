"""After the burst: mail every lead of it once, with two senders that compete for the same list, and count the mails.

Senders and mailbox are processes of their own. The campaign is launched for a second later and started when both are
ready, so that the `outreach` queue, woken by the launch, has not sent everything by then. The mails are counted in the
mailbox, by Message-ID and address, not in Rota's tables.
"""

import logging
import multiprocessing
import os
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connections
from django.utils import timezone

from config.mailbox import newest
from outreach.errors import LaunchRefused
from outreach.flows.launching import launch
from outreach.flows.sender import send_due, worker_name
from outreach.models import Campaign, Message, SendAttempt, Step
from outreach.moves.campaigns import start_due
from outreach.moves.sending import why_off
from routing.models import Lead

SENDERS = 2
BATCH = 3
"""Mails claimed at a time: small, so that both senders have a part of thirty."""
LATER_S = 1
READY_S = 30
PATIENCE_S = 60
FORK = multiprocessing.get_context("fork")
SUBJECT = "{{ lead.first_name|default:'Hello' }}, thank you for coming"
BODY = """\
Hello {{ lead.first_name|default:'there' }},

thank you for your time today. {{ rep.name|default:'One of us' }} will be in touch.
"""


@dataclass
class Mailed:
    """Mails that should arrive, addresses that got one, those that got more, and how many each worker handed over."""

    wanted: int = 0
    mailed: int = 0
    mailed_twice: int = 0
    workers: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def mail_leads(uids: Sequence[UUID]) -> Mailed | None:
    """Launch a campaign for these leads and have it sent; None where a real relay is set: a demo mails no people."""
    if not settings.MAIL_STAYS_HERE:
        return None
    if off := why_off(worker="demo"):
        return Mailed(failures=[f"sending is off: {off}"])
    if not mailbox_answers():
        return Mailed(failures=["the mailbox does not answer"])
    campaign = Campaign.objects.create(
        name="Demo: thank you",
        from_name="Rota",
        from_address="team@rota.example",
        starts_at=timezone.now() + timedelta(seconds=LATER_S),
    )
    Step.objects.create(campaign=campaign, order=1, delay=timedelta(0), subject=SUBJECT, body=BODY)
    leads = list(Lead.objects.filter(uid__in=uids).values_list("pk", flat=True))
    connections.close_all()  # a forked connection would be shared
    start = FORK.Barrier(SENDERS + 1)
    senders = [FORK.Process(target=send, args=(number, start)) for number in range(1, SENDERS + 1)]
    for sender in senders:
        sender.start()
    try:
        result = Mailed(wanted=launch(campaign_id=campaign.pk, leads=leads, by="demo").enrolled)
        time.sleep(LATER_S)
        while Campaign.objects.filter(pk=campaign.pk, status=Campaign.Status.SCHEDULED).exists() and not start_due():
            time.sleep(0.05)
        start.wait(READY_S)
    except LaunchRefused as refusal:  # nobody has an address
        start.abort()
        return Mailed(failures=[] if not any(refusal.problems.values()) else [str(refusal)])
    finally:
        for sender in senders:
            sender.join(PATIENCE_S)
            sender.kill()
    wait_for_the_last(campaign)
    return counted(campaign, result)


def mailbox_answers() -> bool:
    """Wait until the mailbox takes connections."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        try:
            socket.create_connection((settings.EMAIL_HOST, settings.EMAIL_PORT), timeout=1).close()
            return True
        except OSError:
            time.sleep(0.1)
    return False


def send(number: int, start: Barrier) -> None:
    """One sender: the product's own, under a job of its own so that the other may run beside it."""
    logging.disable(logging.INFO)
    try:
        connections["default"].ensure_connection()
        start.wait(READY_S)
        send_due(worker=worker_name(), job=f"demo {number}", batch=BATCH)
    finally:
        connections.close_all()
        os._exit(0)


def wait_for_the_last(campaign: Campaign) -> None:
    """The `outreach` queue may have taken a part too, and still hold some."""
    until = time.monotonic() + PATIENCE_S
    left = campaign.messages.filter(status__in=(Message.Status.DUE, *Message.HELD))
    while time.monotonic() < until and left.exists():
        time.sleep(0.05)


def counted(campaign: Campaign, result: Mailed) -> Mailed:
    """What the mailbox has of this campaign, and which workers handed it over."""
    tries: Any = SendAttempt.objects.filter(message__campaign=campaign)
    ours = set(tries.values_list("mail_id", flat=True))
    arrived = Counter(
        kept.to.casefold() for kept in newest(Path(settings.BASE_DIR, settings.MAILBOX_FOLDER)) if kept.mail_id in ours
    )
    result.mailed = len(arrived)
    result.mailed_twice = sum(1 for times in arrived.values() if times > 1)
    result.workers = dict(Counter(tries.values_list("worker", flat=True)).most_common())
    return result
