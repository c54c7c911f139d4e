"""The journal of bulk jobs: what has been done with each, written down before the next step is taken.

A job belongs to one claim and holds its lanes until it has been harvested or aborted, however long that takes and
whichever worker carries it on. One worker at a time takes its steps, for as long as its hold runs by the database's
clock; who comes too late finds another holder and changes nothing.
"""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from crmsync.models.lanes import Claim


class BulkJobQuerySet(models.QuerySet["BulkJob"]):
    def unfinished(self) -> Self:
        return self.exclude(status__in=BulkJob.ENDED)

    def due(self) -> Self:
        """Its next step is due and nobody takes it, by the database's clock."""
        return self.unfinished().filter(look_at__lte=Now()).filter(Q(held_until__isnull=True) | Q(held_until__lt=Now()))


class BulkJob(models.Model):
    """One job of Bulk API 2.0 or 1.0, and how far it is known to have come."""

    class Status(models.TextChoices):
        """
        planned -> created          the org has made it and told its id; nothing of ours is in it
        created -> uploaded         the rows are there
        uploaded -> closed          the org was told to start (1.0: to take no more)
        closed -> polling           the org works on it
        closed, polling -> harvested   every row has its outcome
        planned, created -> aborted    it failed before anything was processed; its rows went back
        """

        PLANNED = "planned"
        CREATED = "created"
        UPLOADED = "uploaded"
        CLOSED = "closed"
        POLLING = "polling"
        HARVESTED = "harvested"
        ABORTED = "aborted"

    ENDED = (Status.HARVESTED, Status.ABORTED)

    claim = models.OneToOneField(Claim, on_delete=models.PROTECT, related_name="job")
    road = models.TextField(choices=[("bulk2", "Bulk API 2.0"), ("bulk1", "Bulk API 1.0, serial")])
    object = models.TextField()
    operation = models.TextField()
    rows = models.IntegerField(help_text="Rows sent; each must come back with an outcome.")
    status = models.TextField(choices=Status.choices, db_default=Status.PLANNED)
    org_id = models.TextField(db_default="", help_text="The org's id of the job.")
    batch_id = models.TextField(db_default="", help_text="Bulk API 1.0: the org's id of its only batch.")
    worker = models.TextField(help_text="Who took the last step.")
    holder = models.UUIDField(null=True, help_text="Who takes the present step.")
    held_until = models.DateTimeField(null=True)
    look_at = models.DateTimeField(db_default=Now(), help_text="When the next step is due.")
    looks = models.IntegerField(db_default=0, help_text="Looks since the last step.")
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    org_state = models.TextField(db_default="", help_text="What the org last called its state.")
    processed = models.IntegerField(db_default=0)
    failed = models.IntegerField(db_default=0)
    retries = models.IntegerField(db_default=0, help_text="How often the org put a batch of it back, mostly for locks.")
    reads = models.SmallIntegerField(db_default=0, help_text="Times its results were read and did not add up.")
    message = models.TextField(db_default="", help_text="What was last said about it as a whole.")
    maybe_orphaned = models.BooleanField(
        db_default=False, help_text="Nobody knows whether the org made it; an open job nobody recorded is sought."
    )

    objects = BulkJobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["org_id"], name="bulk_job_once_per_org_id", condition=~Q(org_id="")),
            models.CheckConstraint(condition=Q(road__in=["bulk2", "bulk1"]), name="bulk_job_road_is_bulk"),
            models.CheckConstraint(
                condition=Q(operation__in=["upsert", "update", "delete"]), name="bulk_job_operation_known"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["planned", "created", "uploaded", "closed", "polling", "harvested", "aborted"]),
                name="bulk_job_status_known",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["planned", "aborted"]) | ~Q(org_id=""), name="bulk_job_created_has_org_id"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["harvested", "aborted"], ended_at__isnull=False)
                | (~Q(status__in=["harvested", "aborted"]) & Q(ended_at__isnull=True)),
                name="bulk_job_ended_at_iff_ended",
            ),
            models.CheckConstraint(
                condition=Q(holder__isnull=True, held_until__isnull=True)
                | Q(holder__isnull=False, held_until__isnull=False),
                name="bulk_job_held_until_iff_held",
            ),
            models.CheckConstraint(condition=Q(rows__gte=1), name="bulk_job_has_rows"),
        ]
        indexes = [
            # deliver: unfinished jobs whose next step is due, the longest due first
            models.Index(
                fields=["look_at"], name="bulk_job_unfinished", condition=~Q(status__in=["harvested", "aborted"])
            ),
            # reap: jobs that the org may have made without our knowing
            models.Index(fields=["created_at"], name="bulk_job_maybe_orphaned", condition=Q(maybe_orphaned=True)),
        ]

    def __str__(self) -> str:
        return f"{self.road} job {self.org_id or 'not made yet'}, {self.object} x {self.rows}, {self.status}"
