"""Keep the outbox small: go on round the table, a bounded step at a time."""

import time
from dataclasses import asdict, dataclass

from django.conf import settings

from crmsync.moves.pruning import prune_next

STEP = 2_000


@dataclass
class Pruned:
    """Messages deleted, and whether this run came to the end of the table; the next begins at its start again."""

    messages: int = 0
    round: bool = False

    def as_counts(self) -> dict[str, int]:
        return asdict(self)


def prune(*, budget_s: float, step: int = STEP) -> Pruned:
    """Prune for so long, or once round at most. Call outside a transaction."""
    done = Pruned()
    until = time.monotonic() + budget_s
    while not done.round and time.monotonic() < until:
        count, done.round = prune_next(days=settings.CRM_KEEP_DAYS, batch_days=settings.CRM_KEEP_BATCH_DAYS, most=step)
        done.messages += count
    return done
