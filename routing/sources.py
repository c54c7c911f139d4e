"""Change how a source proves that a delivery is its own, and what is expected of it. Each function is a move: call
inside a transaction.
"""

from collections.abc import Sequence

from django.db.models import F, Value
from django.db.models.functions import Now

from routing.fetches import ask_again_with_new_token
from routing.kinds import KINDS
from routing.models import InboundSource
from routing.models.source import new_secret


def rotate_secrets(*, source_ids: Sequence[int]) -> int:
    """Give each of these sources a fresh secret; the one until now stays good until it is dropped. Return how many.

    Sources whose sender makes the secret are left alone: theirs is entered.
    """
    ours = [name for name, kind in KINDS.items() if not kind.secret_is]
    rotated = 0
    for pk in sorted(source_ids):
        found = InboundSource.objects.filter(pk=pk, kind__in=ours)
        rotated += found.update(previous_secret=F("secret"), secret=new_secret())
    return rotated


def enter_secret(*, source_id: int, secret: str) -> None:
    """Take over a secret that the sender made; the one until now stays good until it is dropped."""
    others = InboundSource.objects.filter(pk=source_id).exclude(secret=secret)
    others.update(previous_secret=F("secret"), secret=Value(secret))


def enter_api_token(*, source_id: int, token: str) -> int:
    """Use this token from now on, and ask again for what the old one was refused; return how many events that are."""
    InboundSource.objects.filter(pk=source_id).update(api_token=token)
    return ask_again_with_new_token(source_id=source_id)


def watch_anew(*, source_id: int) -> None:
    """What is expected of the source has changed: it is given that long from now."""
    InboundSource.objects.filter(pk=source_id).update(watched_from=Now(), silent_since=None)


def drop_previous_secrets(*, source_ids: Sequence[int]) -> int:
    """Accept the newest secret only. Return how many sources had an earlier one that still worked."""
    return InboundSource.objects.filter(pk__in=source_ids).exclude(previous_secret="").update(previous_secret="")
