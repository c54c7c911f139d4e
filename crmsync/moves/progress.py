"""How far a mass update is: what became of its rows, and of those that newer changes took over."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import connection

from crmsync.models import Batch


@dataclass(frozen=True, slots=True)
class Progress:
    """Rows by what became of them. `overtaken` rows arrived as part of a newer change of their record.

    `waiting` and `failed` count rows that newer changes took over by what became of those.
    """

    total: int
    queued: int
    waiting: int = 0
    sending: int = 0
    delivered: int = 0
    overtaken: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def open(self) -> int:
        return self.total - self.delivered - self.overtaken - self.failed - self.cancelled

    @property
    def percent(self) -> int:
        return 100 if not self.total else (self.total - self.open) * 100 // self.total

    def as_counts(self) -> dict[str, int]:
        return asdict(self)


# The end of each row's way through the newer messages that took it over. Few are replaced, and few more than once.
ENDS = """
WITH RECURSIVE way AS (
    SELECT m.id AS row, m.id, m.status, m.superseded_by_id AS next FROM crmsync_outboxmessage AS m
     WHERE m.batch_id = %(batch)s AND m.status IN ('superseded', 'retried')
    UNION ALL
    SELECT way.row, n.id, n.status, n.superseded_by_id FROM way JOIN crmsync_outboxmessage AS n ON n.id = way.next
     WHERE way.status IN ('superseded', 'retried')
)
"""
COUNTS = f"""
{ENDS}
SELECT status, false, count(*) FROM crmsync_outboxmessage
 WHERE batch_id = %(batch)s AND status NOT IN ('superseded', 'retried') GROUP BY status
UNION ALL
SELECT status, true, count(*) FROM way WHERE status NOT IN ('superseded', 'retried') GROUP BY status
"""
NAMES = {
    "pending": "waiting",
    "claimed": "sending",
    "delivered": "delivered",
    "dead": "failed",
    "cancelled": "cancelled",
}


def progress(batch: Batch) -> Progress:
    """What became of the batch's rows so far. Rows that were never queued count as cancelled once the batch is."""
    with connection.cursor() as cursor:
        cursor.execute(COUNTS, {"batch": batch.pk})
        rows = cursor.fetchall()
    counts = dict.fromkeys((*NAMES.values(), "overtaken"), 0)
    for status, replaced, count in rows:
        counts["overtaken" if replaced and status == "delivered" else NAMES[status]] += count
    if batch.status == Batch.Status.CANCELLED:
        counts["cancelled"] += batch.rows_total - batch.rows_queued
    return Progress(total=batch.rows_total, queued=batch.rows_queued, **counts)


VERDICTS = f"""
{ENDS}
SELECT m.line, r.external_id, m.status, coalesce(w.status, m.status), r.crm_id, e.failure_code, e.failure_field,
       e.failure_text, coalesce(e.settled_at, e.due_at), m.id
  FROM crmsync_outboxmessage AS m
  JOIN crmsync_crmrecord AS r ON r.id = m.record_id
  LEFT JOIN way AS w ON w.row = m.id AND w.status NOT IN ('superseded', 'retried')
  JOIN crmsync_outboxmessage AS e ON e.id = coalesce(w.id, m.id)
 WHERE m.batch_id = %(batch)s AND m.line > %(after)s ORDER BY m.line LIMIT %(most)s
"""
PART = 5_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the row that begins on this line of the file."""

    line: int
    key: str
    verdict: str
    crm_id: str
    code: str
    field: str
    text: str
    at: datetime
    message_id: int

    HEADER = ("line", "key", "verdict", "crm_id", "code", "field", "message", "at", "outbox_message")

    def cells(self) -> tuple[object, ...]:
        return (
            self.line, self.key, self.verdict, self.crm_id, self.code, self.field, self.text,
            f"{self.at:%Y-%m-%dT%H:%M:%SZ}", self.message_id,
        )  # fmt: skip


def verdicts(batch: Batch) -> Iterator[Verdict]:
    """One for every row that was queued, in the order of the file, some thousand read at a time."""
    after = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(VERDICTS, {"batch": batch.pk, "after": after, "most": PART})
            rows = cursor.fetchall()
        for line, key, own, end, crm_id, code, field, text, at, pk in rows:
            failed = end in ("dead", "pending", "claimed")
            yield Verdict(
                line, key, word(own, end), crm_id or "", code if failed else "", field if failed else "",
                text if failed else "", at, pk,
            )  # fmt: skip
        if len(rows) < PART:
            return
        after = rows[-1][0]


def word(own: str, end: str) -> str:
    """The verdict in a word or two."""
    if own in ("superseded", "retried") and end == "delivered":
        return "delivered in a newer change" if own == "superseded" else "delivered, sent again by hand"
    return NAMES[end]
