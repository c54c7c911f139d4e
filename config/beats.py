"""Tell a queue that is being worked on from one that stands still.

A queue is stuck when for `stuck_after` seconds there was work on it and not one row has left it. A working cluster,
however busy, finishes or times out some task within the task timeout, so `stuck_after` must be longer than that. With
several hosts a queue that one of them serves is not stuck.
"""

from dataclasses import dataclass, field

from django.db import transaction
from django.db.models.functions import Now
from django_q.models import OrmQ

from crmsync.nudge import COALESCED, ask, nudge


@dataclass
class Pulse:
    """What was last seen of one queue. Times are seconds of a clock that never goes back."""

    queue: str
    stuck_after: float
    moved_at: float
    rows: set[int] = field(default_factory=set)

    def look(self, now: float) -> bool:
        """Look at the queue, leave work on it for the next look, and say whether it is stuck."""
        rows = self._rows()
        if not rows or not self.rows <= rows:
            self.moved_at = now
        self._leave_work()
        return now - self.moved_at > self.stuck_after

    def _rows(self) -> set[int]:
        return set(OrmQ.objects.filter(key=self.queue).order_by("pk").values_list("pk", flat=True)[:1_000])

    def _leave_work(self) -> None:
        """Put a beat on the queue unless it has work that is due. Nobody can take the beat before we have seen it."""
        with transaction.atomic(durable=True):
            if self.queue in COALESCED:  # any other task there would be taken for a nudge
                nudge(self.queue)
            elif not OrmQ.objects.filter(key=self.queue, lock__lte=Now()).exists():
                ask("config.tasks.beat", queue=self.queue)
            self.rows = self._rows()
