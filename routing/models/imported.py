"""Files of leads: each import of one, what became of each of its rows, and how columns were mapped before."""

from typing import Any

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from routing.models.lead import Lead
from routing.models.source import InboundSource


class Import(models.Model):
    """A file whose rows become leads of a source, a chunk at a time.

    `position` is the number of the last row whose verdict is committed; a row's lead, event and verdict are committed
    together with it, so whoever goes on begins with the next row. Who works on it holds `claim` until `leased_until`.
    """

    class Status(models.TextChoices):
        """received -> running -> finished; running <-> paused; received, running or paused -> cancelled; running ->
        failed (its file cannot be read) -> running (a person).
        """

        RECEIVED = "received", "Received"
        RUNNING = "running", "Running"
        PAUSED = "paused", "Paused"
        FINISHED = "finished", "Finished"
        CANCELLED = "cancelled", "Cancelled"
        FAILED = "failed", "Failed"

    OPEN = (Status.RECEIVED, Status.RUNNING, Status.PAUSED)
    STARTABLE = (Status.RECEIVED, Status.PAUSED, Status.FAILED)
    ENDED = (Status.FINISHED, Status.CANCELLED, Status.FAILED)

    source = models.ForeignKey(InboundSource, on_delete=models.PROTECT, related_name="imports")
    file_name = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, help_text="SHA-256 of the file.")
    again = models.PositiveIntegerField(db_default=0, help_text="How many imports of this file were undone before.")
    encoding = models.CharField(max_length=20)
    delimiter = models.CharField(max_length=1)
    header_line = models.PositiveIntegerField(help_text="0: the file has no header.")
    columns: Any = models.JSONField(help_text="A name for each column, by position.")
    mapping: Any = models.JSONField(help_text="What each column is, by position; empty: it is left out.")
    match_phones = models.BooleanField(
        default=True, db_default=True, help_text="Somebody with a known phone number is the same lead."
    )
    notices: Any = models.JSONField(default=list, db_default=models.Value([], models.JSONField()), blank=True)
    total = models.PositiveIntegerField(null=True, blank=True, help_text="Records; empty: not counted yet.")
    status = models.CharField(max_length=9, choices=Status, default=Status.RECEIVED, db_default=Status.RECEIVED)
    position = models.PositiveIntegerField(db_default=0)
    created = models.PositiveIntegerField(db_default=0)
    touched = models.PositiveIntegerField(db_default=0)
    duplicate = models.PositiveIntegerField(db_default=0)
    rejected = models.PositiveIntegerField(db_default=0)
    problem = models.CharField(max_length=300, blank=True, default="", db_default="", help_text="Why it failed.")
    received_by = models.CharField(max_length=150)
    received_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    claim = models.UUIDField(null=True, blank=True, editable=False)
    leased_until = models.DateTimeField(null=True, blank=True, editable=False)
    undone_at = models.DateTimeField(null=True, blank=True)
    undone_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    undone: Any = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()), blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["received", "running", "paused", "finished", "cancelled", "failed"]),
                name="import_status_is_known",
            ),
            models.UniqueConstraint(
                fields=["source", "digest"],
                condition=Q(status__in=["received", "running", "paused"]),
                name="import_one_open_per_file_and_source",
            ),
            models.CheckConstraint(
                condition=Q(position=F("created") + F("touched") + F("duplicate") + F("rejected")),
                name="import_position_is_the_sum_of_verdicts",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["finished", "cancelled", "failed"], ended_at__isnull=False)
                | (~Q(status__in=["finished", "cancelled", "failed"]) & Q(ended_at=None)),
                name="import_ended_at_iff_ended",
            ),
            models.CheckConstraint(
                condition=Q(claim=None, leased_until=None) | Q(claim__isnull=False, leased_until__isnull=False),
                name="import_leased_iff_claimed",
            ),
            models.CheckConstraint(
                condition=Q(undone_at=None, undone_by="")
                | (Q(undone_at__isnull=False, status__in=["finished", "cancelled"]) & ~Q(undone_by="")),
                name="import_undone_by_somebody_after_its_end",
            ),
        ]
        indexes = [
            # the sweep looks for imports that nobody works on
            models.Index(fields=["leased_until"], condition=Q(status="running"), name="import_running"),
        ]

    def __str__(self) -> str:
        return self.file_name

    @property
    def event_prefix(self) -> str:
        """What the event ids of this file's rows begin with; another one once an import of it was undone."""
        return f"file:{self.digest}:" + (f"{self.again}:" if self.again else "")


class ImportRow(models.Model):
    """What became of one row of an import."""

    class Verdict(models.TextChoices):
        CREATED = "created", "Made a new lead"
        TOUCHED = "touched", "Touched a known open lead"
        DUPLICATE = "duplicate", "Came before, in this file or in an earlier import of it"
        REJECTED = "rejected", "Not a lead"

    of = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="rows", db_index=False)
    number = models.PositiveIntegerField(help_text="Counted from 1, without preamble and header.")
    line = models.PositiveIntegerField(help_text="The line of the file it starts on.")
    verdict = models.CharField(max_length=9, choices=Verdict)
    reason = models.TextField(blank=True, default="", db_default="")
    lead = models.ForeignKey(Lead, on_delete=models.PROTECT, null=True, blank=True, related_name="rows")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["of", "number"], name="import_row_once"),
            models.CheckConstraint(
                condition=Q(verdict__in=["created", "touched", "duplicate", "rejected"]),
                name="import_row_verdict_is_known",
            ),
            models.CheckConstraint(
                condition=(Q(verdict="rejected", lead=None) & ~Q(reason=""))
                | (~Q(verdict="rejected") & Q(lead__isnull=False)),
                name="import_row_lead_unless_rejected_with_a_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"row {self.number}: {self.verdict}"


class ColumnMap(models.Model):
    """How columns with these names were mapped the last time; `signature` stands for the names in their order."""

    signature = models.CharField(max_length=64)
    mapping: Any = models.JSONField()
    used_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["signature"], name="column_map_once_per_header")]

    def __str__(self) -> str:
        return self.signature[:12]
