"""Send every dead message of a kind again, some hundred in a transaction."""

import time
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from crmsync.models import Intervention
from crmsync.moves.interventions import note
from crmsync.moves.retry import retry_dead

PART = 200


@dataclass
class RetriedAll:
    """Messages sent again, those that newer versions had overtaken, and those left when time was up."""

    retried: int = 0
    skipped_newer: int = 0
    left: int = 0


def retry_all(*, matching: "QuerySet[Any]", by: str, reason: str, about: str, budget_s: float) -> RetriedAll:
    """Retry what matches and is dead, for so long; noted with who and why. Call outside a transaction."""
    done = RetriedAll()
    until = time.monotonic() + budget_s
    oldest = matching.order_by("settled_at", "pk")
    while ids := list(oldest.values_list("pk", flat=True)[:PART]):
        if time.monotonic() > until:
            done.left = oldest.count()
            break
        came = retry_dead(message_ids=ids, by=by, reason=reason)
        done.retried += came.retried
        done.skipped_newer += came.skipped_newer
    if done.retried or done.skipped_newer:
        with transaction.atomic(durable=True):
            note(Intervention.Kind.RETRIED, about=about, by=by, reason=reason, count=done.retried)
    return done
