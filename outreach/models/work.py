"""Work on leads that is no campaign mail: a named job, claims on batches of its leads, and who holds or did each one.

A lead is worked on once for a job. One partial unique index below is that promise: while somebody holds a lead, did it,
or may have done it, nobody else gets it for the same job.
"""

import uuid
from typing import Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from outreach.models.conditions import Among, Iff
from routing.models import Lead


class LeadJob(models.Model):
    """A piece of work that is done once for each lead, such as "call the spring list". Its claims take turns here."""

    name = models.CharField(max_length=100)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name"], name="lead_job_name_once"),
            models.CheckConstraint(condition=~Q(name=""), name="lead_job_has_a_name"),
        ]

    def __str__(self) -> str:
        return self.name


class LeadClaimQuerySet(models.QuerySet["LeadClaim"]):
    def expired(self) -> Self:
        """Not ended, though its lease has run out by the database's clock."""
        return self.filter(ended_at=None, lease_until__lt=Now())


class LeadClaim(models.Model):
    """A worker's exclusive, temporary hold on a batch of a job's leads."""

    class EndReason(models.TextChoices):
        DONE = "done", "Every lead got its outcome"
        RELEASED = "released", "Given back by its worker"
        EXPIRED = "expired", "Its lease ran out"

    token = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    job = models.ForeignKey(LeadJob, on_delete=models.PROTECT, related_name="claims", db_index=False)
    worker = models.CharField(max_length=200)
    size = models.PositiveSmallIntegerField(help_text="Leads taken.")
    claimed_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    lease_until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=8, choices=EndReason, blank=True, default="", db_default="")

    objects = LeadClaimQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(ended_at=None, end_reason="")
                | Q(ended_at__isnull=False, end_reason__in=["done", "released", "expired"]),
                name="lead_claim_end_reason_iff_ended",
            ),
            models.CheckConstraint(
                condition=Q(lease_until__gt=F("claimed_at")), name="lead_claim_lease_ends_after_it_starts"
            ),
            models.CheckConstraint(condition=~Q(worker=""), name="lead_claim_names_its_worker"),
        ]
        indexes = [
            # expire: claims that have not ended, the longest expired first
            models.Index(fields=["lease_until"], condition=Q(ended_at=None), name="lead_claim_live"),
        ]

    def __str__(self) -> str:
        return f"claim {self.pk} of {self.worker}"


class LeadHold(models.Model):
    """One lead of a claim, and what became of it."""

    class Status(models.TextChoices):
        """
        held -> begun                the worker passed the gate: from now on it may have acted
        held, begun -> done, failed  the worker said so
        held -> released, expired    given back, or the lease ran out: the lead can be claimed again
        begun -> in_doubt            the worker said so, or the lease ran out: never handed out again by a machine
        in_doubt -> done, failed     the worker's late report, or a person
        in_doubt -> released         a person: it was not done, hand it out again
        """

        HELD = "held", "Held"
        BEGUN = "begun", "Begun"
        DONE = "done", "Done"
        FAILED = "failed", "Could not be done"
        IN_DOUBT = "in_doubt", "In doubt"
        RELEASED = "released", "Given back"
        EXPIRED = "expired", "The lease ran out"

    TAKEN = (Status.HELD, Status.BEGUN, Status.DONE, Status.FAILED, Status.IN_DOUBT)
    OPEN = (Status.HELD, Status.BEGUN)

    claim = models.ForeignKey(LeadClaim, on_delete=models.PROTECT, related_name="holds", db_index=False)
    job = models.ForeignKey(LeadJob, on_delete=models.PROTECT, related_name="holds", db_index=False)
    lead = models.ForeignKey(Lead, on_delete=models.PROTECT, related_name="holds")
    status = models.CharField(max_length=8, choices=Status, default=Status.HELD, db_default=Status.HELD)
    begun_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=500, blank=True, default="", db_default="")
    settled_by = models.CharField(max_length=200, blank=True, default="", db_default="")

    class Meta:
        verbose_name = "work on a lead"
        verbose_name_plural = "work on leads"
        constraints = [
            # the promise of this module: see its first lines
            models.UniqueConstraint(
                fields=["job", "lead"],
                condition=Q(status__in=["held", "begun", "done", "failed", "in_doubt"]),
                name="lead_hold_one_taken_per_job",
            ),
            models.UniqueConstraint(fields=["claim", "lead"], name="lead_hold_once_per_claim"),
            models.CheckConstraint(
                condition=Among("status", ["held", "begun", "done", "failed", "in_doubt", "released", "expired"]),
                name="lead_hold_status_is_known",
            ),
            models.CheckConstraint(
                condition=Iff(Q(settled_at=None), Among("status", ["held", "begun", "in_doubt"])),
                name="lead_hold_settled_at_iff_settled",
            ),
            models.CheckConstraint(
                condition=~Q(status__in=["begun", "in_doubt"]) | Q(begun_at__isnull=False),
                name="lead_hold_begun_at_if_begun",
            ),
        ]
        indexes = [
            # what waits for a person
            models.Index(fields=["id"], condition=Q(status="in_doubt"), name="lead_hold_in_doubt"),
        ]

    def __str__(self) -> str:
        return f"lead {self.lead_id}, {self.status}"
