"""Postfix's lines inside JSON: as `journalctl -o json` writes them, or as what collects logs of containers does."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from outreach.audit.postfix import is_line, read_line
from outreach.audit.sightings import BadLine, Queued, Sighting
from outreach.audit.times import Clock

TIMES = ("_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP")


def is_entry(record: dict[str, Any]) -> bool:
    """Whether the record is an entry of a system log, of whichever program."""
    return bool(line_in(record)) or ("MESSAGE" in record and bool({"SYSLOG_IDENTIFIER", "_COMM", *TIMES} & set(record)))


def line_in(record: dict[str, Any]) -> str:
    """The line of a system log that the record has as a text, or nothing."""
    texts = (record.get(name) for name in ("log", "message"))
    return next((text.strip() for text in texts if isinstance(text, str) and is_line(text)), "")


def read_entry(record: dict[str, Any], clock: Clock) -> Iterator[Sighting | Queued]:
    """What the entry says, as a line of a system log would. Raises BadLine."""
    if line := line_in(record):
        yield from read_line(line, clock)
        return
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
