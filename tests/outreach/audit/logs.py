"""Logs in one line each, and the audit of them."""

import datetime as dt
import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from outreach.audit.doubles import Limits
from outreach.audit.times import Clock
from outreach.flows.auditing import Audit, audit

LAST = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
CLOCK = Clock(LAST, ZoneInfo("UTC"))
LIMITS = Limits(lease_s=1_800, within_s=72 * 3_600)


def audited(folder: Path, *logs: str, **options: Any) -> Audit:
    """Write each text into a file of its own and audit them in this order."""
    files = []
    for number, text in enumerate(logs):
        files.append(folder / f"log{number}")
        files[-1].write_text(text)
    return audit(files=files, clock=options.pop("clock", CLOCK), limits=options.pop("limits", LIMITS), **options)


def queued(queue: str, *, at: str, mail_id: str = "", sender: str = "sales@rota.example", host: str = "mx1") -> str:
    """The lines of a mail that Postfix takes in."""
    lines = f"{at} {host} postfix/cleanup[11]: {queue}: message-id=<{mail_id}>\n" if mail_id else ""
    return f"{lines}{at} {host} postfix/qmgr[12]: {queue}: from=<{sender}>, size=9, nrcpt=1 (queue active)\n"


def tried(
    queue: str, *, at: str, to: str = "ann@a.example", status: str = "sent", reply: str = "250 ok", host: str = "mx1"
) -> str:
    """The line of one delivery attempt."""
    where = "relay=mx.a.example[192.0.2.7]:25, delay=0.9, delays=0.1/0/0.4/0.4, dsn=2.0.0"
    return f"{at} {host} postfix/smtp[13]: {queue}: to=<{to}>, {where}, status={status} ({reply})\n"


def removed(queue: str, *, at: str, host: str = "mx1") -> str:
    return f"{at} {host} postfix/qmgr[12]: {queue}: removed\n"


def lines(*events: dict[str, Any]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def kinds(found: Audit) -> list[str]:
    return [one.kind for one in found.doubles]
