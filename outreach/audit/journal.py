"""Postfix's lines as journald exports them: `journalctl -o json`, one entry a line."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from outreach.audit.postfix import read_line
from outreach.audit.sightings import BadLine, Queued, Sighting
from outreach.audit.times import Clock

TIMES = ("_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP")


def is_entry(record: dict[str, Any]) -> bool:
    return "MESSAGE" in record and bool({"SYSLOG_IDENTIFIER", "_COMM", *TIMES} & set(record))


def read_entry(record: dict[str, Any], clock: Clock) -> Iterator[Sighting | Queued]:
    """What the entry says, as a line of a system log would. Raises BadLine."""
    program = str(record.get("SYSLOG_IDENTIFIER") or record.get("_COMM") or "")
    if not program.startswith("postfix"):
        return
    try:
        at = clock.any(next((record[name] for name in TIMES if record.get(name)), None))
    except ValueError as fault:
        raise BadLine(str(fault)) from None
    if at is None:
        raise BadLine("an entry without a time")
    host = str(record.get("_HOSTNAME") or "localhost").replace(" ", "")
    yield from read_line(f"{datetime.fromtimestamp(at, UTC).isoformat()} {host} {program}: {record['MESSAGE']}", clock)
