"""Change how a source proves that a delivery is its own. Each function is a move: call inside a transaction."""

from collections.abc import Sequence

from django.db.models import F

from routing.models import InboundSource
from routing.models.source import new_secret


def rotate_secrets(*, source_ids: Sequence[int]) -> int:
    """Give each of these sources a fresh secret; the one until now stays good until it is dropped. Return how many."""
    rotated = 0
    for pk in sorted(source_ids):
        found = InboundSource.objects.filter(pk=pk)
        rotated += found.update(previous_secret=F("secret"), secret=new_secret())
    return rotated


def drop_previous_secrets(*, source_ids: Sequence[int]) -> int:
    """Accept the newest secret only. Return how many sources had an earlier one that still worked."""
    return InboundSource.objects.filter(pk__in=source_ids).exclude(previous_secret="").update(previous_secret="")
