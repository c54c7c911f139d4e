"""Messages that did not arrive, as the two rows of people's work: lock failures, and dead letters of any other kind.

Both are the outbox's own rows under a name of their own, so that each has its list and its permissions.
"""

from django.db import models

from crmsync.models.outbox import FailureKind, OutboxMessage


class LockFailureManager(models.Manager["LockFailure"]):
    def get_queryset(self) -> models.QuerySet["LockFailure"]:
        return super().get_queryset().filter(status="dead", failure_kind=FailureKind.CONTENTION)


class DeadLetterManager(models.Manager["DeadLetter"]):
    def get_queryset(self) -> models.QuerySet["DeadLetter"]:
        others = [kind for kind in FailureKind.values if kind != FailureKind.CONTENTION]
        return super().get_queryset().filter(status="dead", failure_kind__in=others)


class LockFailure(OutboxMessage):
    """Dead because somebody held a lock in the org for longer than Rota was told to wait."""

    objects = LockFailureManager()  # type: ignore[assignment,misc]

    class Meta:
        proxy = True
        verbose_name = "lock failure"


class DeadLetter(OutboxMessage):
    """Dead for any other reason: refused, or failed too often."""

    objects = DeadLetterManager()  # type: ignore[assignment,misc]

    class Meta:
        proxy = True
        verbose_name = "dead letter"
