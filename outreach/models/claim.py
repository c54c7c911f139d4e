"""Who may try to send which messages right now, and who runs a job that wants to be run once at a time.

A lease protects progress only: it decides who works, by the database's clock. What protects the recipient is the
intent (models/attempt), which stays valid when leases, clocks and workers do not.
"""

import uuid
from typing import Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from outreach.models.campaign import Campaign


class ClaimQuerySet(models.QuerySet["Claim"]):
    def live(self) -> Self:
        return self.filter(ended_at=None)

    def expired(self) -> Self:
        """Not ended, though its lease has run out by the database's clock."""
        return self.live().filter(lease_until__lt=Now())


class Claim(models.Model):
    """A worker's exclusive, temporary hold on a batch of one campaign's messages.

    `id` only ever rises, so a later claim is a larger one; `token` is what the worker shows, and nobody can guess it.
    """

    class EndReason(models.TextChoices):
        DONE = "done", "Every message got its outcome"
        RELEASED = "released", "Given back: the sender stopped, or its time was up"
        EXPIRED = "expired", "The reaper took it: its worker is dead or too slow"

    token = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    campaign = models.ForeignKey(Campaign, on_delete=models.PROTECT, related_name="claims", db_index=False)
    worker = models.CharField(max_length=200)
    size = models.PositiveSmallIntegerField(help_text="Messages taken.")
    claimed_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    lease_until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=8, choices=EndReason, blank=True, default="", db_default="")

    objects = ClaimQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(ended_at=None, end_reason="")
                | Q(ended_at__isnull=False, end_reason__in=["done", "released", "expired"]),
                name="outreach_claim_end_reason_iff_ended",
            ),
            models.CheckConstraint(
                condition=Q(lease_until__gt=F("claimed_at")), name="outreach_claim_lease_ends_after_it_starts"
            ),
            models.CheckConstraint(condition=~Q(worker=""), name="outreach_claim_names_its_worker"),
        ]
        indexes = [
            # reap: claims that have not ended, the longest expired first
            models.Index(fields=["lease_until"], condition=Q(ended_at=None), name="outreach_claim_live"),
        ]

    def __str__(self) -> str:
        return f"claim {self.pk} of {self.worker}"


class JobLock(models.Model):
    """A job that one process runs at a time, for as long as its lease lasts. Whoever does not get it does nothing.

    Losing it never breaks correctness: the claims below it are disjoint, and the gate below them holds alone.
    """

    name = models.CharField(max_length=100, primary_key=True)
    token = models.UUIDField(null=True)
    worker = models.CharField(max_length=200, blank=True, default="", db_default="")
    taken_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(token=None, worker="", taken_at=None, lease_until=None)
                | (Q(token__isnull=False, taken_at__isnull=False, lease_until__isnull=False) & ~Q(worker="")),
                name="job_lock_holder_whole_or_none",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.worker or 'free'}"
