"""Mass updates: a file of changes that was put into the outbox under one number.

Its rows are ordinary outbox messages with the batch's id and their line in the file, planned like every other change.
"""

from typing import Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now


class Operation(models.TextChoices):
    """What a message does to its record in the CRM."""

    UPSERT = "upsert"  # create it where it is not there
    UPDATE = "update"  # refused where it is not there
    DELETE = "delete"  # done where it is not there


class BatchQuerySet(models.QuerySet["Batch"]):
    def kept(self) -> Self:
        """Paused or cancelled: none of their rows is begun."""
        return self.filter(Q(paused_at__isnull=False) | Q(status=Batch.Status.CANCELLED))

    def live(self) -> Self:
        """Neither cancelled nor ended: there is something left to stop."""
        return self.filter(settled_at=None).exclude(status=Batch.Status.CANCELLED)

    def begun(self) -> Self:
        """Live, and somebody has said go."""
        return self.live().exclude(status=Batch.Status.OFFERED)

    def loading(self) -> Self:
        return self.filter(status=Batch.Status.LOADING)


class Batch(models.Model):
    """One file of changes to one object, all of one operation."""

    class Status(models.TextChoices):
        """
        offered -> loading     a person has seen the plan and said go
        loading -> queued      every row of the file is in the outbox
        offered, loading, queued -> cancelled    what was neither sent nor being sent never will be
        """

        OFFERED = "offered"
        LOADING = "loading"
        QUEUED = "queued"
        CANCELLED = "cancelled"

    object = models.TextField(help_text="The CRM's object name, such as Contact.")
    operation = models.TextField(choices=Operation.choices, db_default=Operation.UPSERT)
    status = models.TextField(choices=Status.choices, db_default=Status.LOADING)
    file_name = models.TextField()
    digest = models.TextField(help_text="SHA-256 of the file, by which the same file is known again.")
    columns = models.JSONField(help_text="The file's header.")
    encoding = models.TextField(db_default="", help_text="As the person said it; empty: found out from the file.")
    again = models.IntegerField(db_default=0, help_text="How many times the same file was pushed before, on purpose.")
    plan = models.JSONField(null=True, help_text="What a dry run said when it was uploaded.")
    rows_total = models.IntegerField(help_text="Rows of the file, without its header.")
    rows_queued = models.IntegerField(db_default=0, help_text="Rows that are in the outbox; loading goes on from here.")
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.TextField()
    queued_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True, help_text="When the last of its rows was seen to have an outcome.")
    paused_at = models.DateTimeField(null=True)
    paused_by = models.TextField(db_default="")
    cancelled_at = models.DateTimeField(null=True)
    cancelled_by = models.TextField(db_default="")
    reason = models.TextField(db_default="", help_text="Why it was paused or cancelled.")

    objects = BatchQuerySet.as_manager()

    class Meta:
        verbose_name = "mass update"
        constraints = [
            # who starts: the same file is one batch, also if two start it at once
            models.UniqueConstraint(
                fields=["digest", "object", "operation", "again"],
                name="batch_once_per_file",
                condition=Q(status__in=["loading", "queued"]),
            ),
            models.CheckConstraint(condition=Q(again__gte=0), name="batch_again_not_negative"),
            models.CheckConstraint(
                condition=Q(status__in=["offered", "loading", "queued", "cancelled"]), name="batch_status_known"
            ),
            models.CheckConstraint(
                condition=Q(operation__in=["upsert", "update", "delete"]), name="batch_operation_known"
            ),
            models.CheckConstraint(
                condition=Q(rows_queued__gte=0, rows_queued__lte=F("rows_total")),
                name="batch_queues_no_more_than_its_file",
            ),
            models.CheckConstraint(
                condition=~Q(status="queued") | Q(rows_queued=F("rows_total"), queued_at__isnull=False),
                name="batch_queued_means_every_row",
            ),
            models.CheckConstraint(
                condition=Q(paused_at__isnull=True, paused_by="") | (Q(paused_at__isnull=False) & ~Q(paused_by="")),
                name="batch_paused_by_iff_paused",
            ),
            models.CheckConstraint(
                condition=Q(status="cancelled", cancelled_at__isnull=False) & ~Q(cancelled_by="")
                | (~Q(status="cancelled") & Q(cancelled_at__isnull=True, cancelled_by="")),
                name="batch_cancelled_by_iff_cancelled",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.file_name}: {self.operation} {self.object}"


class BatchPart(models.Model):
    """A piece of an uploaded file, until all its rows are in the outbox."""

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="parts", db_index=False)
    number = models.IntegerField()
    content = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["batch", "number"], name="batch_part_once"),
            models.CheckConstraint(condition=Q(number__gte=0), name="batch_part_counts_from_zero"),
        ]

    def __str__(self) -> str:
        return f"part {self.number} of {self.batch_id}"
