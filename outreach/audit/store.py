"""Everything that was seen, in a file of its own while the audit lasts: logs may be larger than the memory."""

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from outreach.audit.sightings import Queued, Sighting

PART = 5_000
TABLES = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE seen (address, state, road, at REAL, handle, mail_id, host, onward, worker, campaign, step, sender,
                       subject, place);
    CREATE TABLE queued (host, handle, at REAL, fact, value);
"""
INDEXES = """
    CREATE INDEX queued_of ON queued (host, handle, fact, at);
    CREATE INDEX seen_by_address ON seen (address, at);
    CREATE INDEX seen_by_mail_id ON seen (mail_id);
"""
# A queue id is used again after a while: the facts that count are the last before the delivery.
JOIN = """
    UPDATE seen SET
        mail_id = coalesce((SELECT value FROM queued q WHERE q.host = seen.host AND q.handle = seen.handle
                              AND q.fact = 'mail_id' AND q.at <= seen.at ORDER BY q.at DESC LIMIT 1), ''),
        sender = coalesce((SELECT '<' || value || '>' FROM queued q WHERE q.host = seen.host AND q.handle = seen.handle
                             AND q.fact = 'sender' AND q.at <= seen.at ORDER BY q.at DESC LIMIT 1), ''),
        worker = coalesce((SELECT value FROM queued q WHERE q.host = seen.host AND q.handle = seen.handle
                             AND q.fact = 'client' AND q.at <= seen.at ORDER BY q.at DESC LIMIT 1), ''),
        step = '',
        handle = handle || '#' || (SELECT count(*) FROM queued q WHERE q.host = seen.host AND q.handle = seen.handle
                                      AND q.fact = 'removed' AND q.at < seen.at)
     WHERE road = 'postfix'
"""
# Only addresses for which more than one mail was seen can have got two.
MORE_THAN_ONE = """
    SELECT * FROM seen WHERE address IN (
        SELECT address FROM seen GROUP BY address
        HAVING count(DISTINCT road || ' ' || host || ' ' || handle) > 1 OR count(DISTINCT mail_id) > 1
            OR sum(state = 'delivered') > 1 OR sum(handle = '') > 1)
     ORDER BY address, at, rowid
"""


@dataclass(frozen=True, slots=True)
class Seen(Sighting):
    """A sighting and the place it stands at: file and line."""

    place: str = ""


class Store:
    """The sightings of all files. Add, then `join`, then ask."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path)
        self.db.executescript(TABLES)
        self.seen: list[tuple[object, ...]] = []
        self.queued: list[tuple[object, ...]] = []

    def add(self, said: Iterable[Sighting | Queued], *, place: str) -> None:
        for one in said:
            if isinstance(one, Queued):
                self.queued.append((one.host, one.handle, one.at, one.fact, one.value))
            else:
                row = (one.address, one.state, one.road, one.at, one.handle, one.mail_id, one.host, one.onward)
                self.seen.append((*row, one.worker, one.campaign, one.step, one.sender, one.subject, place))
        if len(self.seen) + len(self.queued) >= PART:
            self.flush()

    def flush(self) -> None:
        self.db.executemany(f"INSERT INTO seen VALUES ({', '.join('?' * 14)})", self.seen)
        self.db.executemany("INSERT INTO queued VALUES (?, ?, ?, ?, ?)", self.queued)
        self.seen.clear()
        self.queued.clear()

    def join(self) -> None:
        """Give each Postfix delivery the facts of its queue id, from whichever file."""
        self.flush()
        self.db.executescript(INDEXES)
        self.db.execute(JOIN)

    def counts(self) -> tuple[int, int]:
        """Addresses that mail was seen for, and deliveries that were put off before they went."""
        (addresses,) = self.db.execute("SELECT count(DISTINCT address) FROM seen").fetchone()
        (deferred,) = self.db.execute("SELECT count(*) FROM seen WHERE state = 'deferred'").fetchone()
        return addresses, deferred

    def by_address(self) -> Iterator[tuple[str, list[Seen]]]:
        """Addresses for which more than one mail was seen, and all that was seen of them, in the order of time."""
        for address, rows in groupby(self.db.execute(MORE_THAN_ONE), key=lambda row: row[0]):
            yield address, [Seen(*row) for row in rows]

    def delivered(self, mail_id: str) -> bool:
        """Whether a mail with this Message-ID was seen to be delivered."""
        found = self.db.execute("SELECT 1 FROM seen WHERE mail_id = ? AND state = 'delivered' LIMIT 1", [mail_id])
        return found.fetchone() is not None

    def close(self) -> None:
        self.db.close()
