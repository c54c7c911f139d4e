"""How many rows a mass chunk may have, and which road claimed rows take."""

from collections.abc import Sequence

from django.conf import settings

from crmsync import roads
from crmsync.backoff import MOST_ROWS
from crmsync.chunks import Candidate, Lanes, by_collections
from crmsync.models import OutboxMessage
from crmsync.moves import piles
from crmsync.moves.org import bulk_is_open

INTERACTIVE = OutboxMessage.Priority.INTERACTIVE


class Limits:
    """How many rows a mass chunk may have, by the roads; asks once what a road wants to know."""

    def __init__(self) -> None:
        self.rules: dict[str, roads.Rules] = {}
        self.due: dict[tuple[str, str], int] = {}

    def rules_of(self, object: str) -> roads.Rules:
        if object not in self.rules:
            self.rules[object] = roads.rules_for(
                object=object,
                roads=settings.CRM_ROADS,
                bulk_from=settings.CRM_BULK_FROM,
                serial_after=settings.CRM_SERIAL_AFTER,
                bulk_open=bulk_is_open(),
            )
        return self.rules[object]

    def __call__(self, kind: tuple[str, str], lock_failures: int, most_rows: int) -> int:
        rules = self.rules_of(kind[0])
        if kind not in self.due:
            self.due[kind] = piles.due_of(*kind, most=rules.bulk_from) if rules.always is None else 0
        halved = int(most_rows < MOST_ROWS)  # by Collections, until its lanes take a whole chunk again
        most = roads.most_rows(mass=True, due=self.due[kind], failures=halved, lock_failures=lock_failures, rules=rules)
        return most if most > MOST_ROWS else by_collections(kind, lock_failures, most_rows)

    def road(self, rows: Sequence[Candidate], lanes: Lanes) -> str:
        """The road of claimed rows. Of some that a person waits for there is nothing more to be asked."""
        if any(row.priority == INTERACTIVE for row in rows):
            return roads.Road.REST if len(rows) == 1 else roads.Road.COLLECTIONS
        return roads.road(
            rows=len(rows),
            mass=True,
            failures=int(any(lanes[key].most_rows < MOST_ROWS for row in rows for key in row.keys if key in lanes)),
            lock_failures=max(row.lock_failures for row in rows),
            rules=self.rules_of(rows[0].object),
        )
