"""Every change to a record of the CRM that still has to arrive, or has.

A record has at most one pending and one claimed message. What comes while a message waits is merged into a newer
version; what comes while one is being sent waits behind it.
"""

from typing import Self

from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Now
from django.db.models.lookups import Exact

from crmsync.models.batches import Batch, Operation
from crmsync.models.record import CrmRecord, json_type

# A parent that planning could not read would stop everything behind it.
UNREADABLE_PARENT = (
    '$[*] ? (!(@.relation.type() == "string" && @.object.type() == "string"'
    ' && (@.external_id.type() == "string" || @.crm_id.type() == "string")))'
)


class HasUnreadableParent(Func):
    function = "jsonb_path_exists"
    template = f"jsonb_path_exists(%(expressions)s, '{UNREADABLE_PARENT}')"
    output_field = models.BooleanField()


class FailureKind(models.TextChoices):
    """Why a message did not arrive, by what Rota does about it."""

    CONTENTION = "contention", "Lock failure"  # backoff on the parent, then Lock failures
    TRANSIENT = "transient", "Temporary fault"  # backoff
    RATE_LIMIT = "rate_limit", "Limit of the org"  # the org pauses, no attempt is charged
    AUTH = "auth", "Login refused"  # the org pauses, no attempt is charged
    GOVERNOR = "governor", "Too much at once"  # the chunk halves; dead when it was alone
    DEPENDENCY = "dependency", "Parent missing"  # waits for the parent while that is on its way
    RACE = "race", "Created meanwhile"  # again soon: it has become an update
    COLLATERAL = "collateral", "Another row's fault"  # again, no attempt is charged
    UNANSWERED = "unanswered", "No answer"  # may have arrived: again once it can no longer commit
    PERMANENT = "permanent", "Refused"  # dead at once, with the field
    UNKNOWN = "unknown", "Unknown error"  # three tries


class OutboxMessageQuerySet(models.QuerySet["OutboxMessage"]):
    def pending(self) -> Self:
        return self.filter(status=OutboxMessage.Status.PENDING)

    def ripe(self) -> Self:
        """Pending, and its time has come by the database's clock."""
        return self.pending().filter(due_at__lte=Now())

    def due(self) -> Self:
        """Ripe, and no paused or cancelled mass update keeps it.

        What took over an urgent change is urgent itself, and no pause of a mass update keeps it.
        """
        kept = Q(batch__isnull=False, batch__in=Batch.objects.kept(), priority=OutboxMessage.Priority.MASS)
        return self.ripe().filter(~kept)

    def newest(self) -> Self:
        """No newer version of the record has been drawn."""
        return self.filter(version=F("record__version"))

    def open(self) -> Self:
        return self.filter(status__in=OutboxMessage.OPEN)

    def dead(self) -> Self:
        return self.filter(status=OutboxMessage.Status.DEAD)

    def lock_failures(self) -> Self:
        """Dead because somebody held a lock in the org for longer than Rota was told to wait."""
        return self.dead().filter(failure_kind=FailureKind.CONTENTION)


class OutboxMessage(models.Model):
    """A change to one CRM record, under Rota's own field names; it is mapped to the org's when it is sent."""

    class Status(models.TextChoices):
        """
        pending -> claimed                  a worker holds it under a lease
        claimed -> delivered                the CRM confirmed it
        claimed -> pending                  failed for now, or its worker died
        claimed -> dead                     refused, or failed too often
        pending, claimed -> superseded      its fields went into a newer version of the record
        dead -> retried                     a person sent what was left of it again
        dead -> superseded                  a person retried it, and newer versions had set everything
        claimed -> pending                  its record is deleted; what it writes afterwards is still to be sent
        pending -> cancelled                its mass update was cancelled
        superseded -> pending, cancelled    the newer version that had taken it over was cancelled
        """

        PENDING = "pending"
        CLAIMED = "claimed"
        DELIVERED = "delivered"
        DEAD = "dead"
        SUPERSEDED = "superseded"
        RETRIED = "retried"
        CANCELLED = "cancelled"

    OPEN = (Status.PENDING, Status.CLAIMED)
    REPLACED = (Status.SUPERSEDED, Status.RETRIED)
    FINAL = (Status.DELIVERED, Status.DEAD, Status.CANCELLED, *REPLACED)

    class Priority(models.IntegerChoices):
        INTERACTIVE = 0, "Interactive"
        MASS = 1, "Mass update"

    record = models.ForeignKey(CrmRecord, on_delete=models.PROTECT, related_name="messages", db_index=False)
    version = models.BigIntegerField()
    operation = models.TextField(choices=Operation.choices, db_default=Operation.UPSERT, help_text="What is sent next.")
    afterwards = models.TextField(  # noqa: DJ001 - null: nothing
        null=True, help_text="Of a deletion that took in a later write: what is sent, with these fields, after it."
    )
    fields = models.JSONField(
        help_text="Rota's field names. Null empties the field in the CRM; absent leaves it alone. A name of the org "
        "that Rota has none for begins with 'org:'."
    )
    parents = models.JSONField(
        db_default=Value([], models.JSONField()), help_text='[{"relation", "object", "external_id" or "crm_id"}, ...]'
    )
    status = models.TextField(choices=Status.choices, db_default=Status.PENDING)
    priority = models.SmallIntegerField(choices=Priority.choices, db_default=Priority.INTERACTIVE)
    due_at = models.DateTimeField(db_default=Now())
    attempts = models.SmallIntegerField(db_default=0, help_text="Attempts charged to it; a paused org charges none.")
    claim = models.ForeignKey(
        "crmsync.Claim", null=True, on_delete=models.PROTECT, related_name="messages", db_index=False
    )
    created_at = models.DateTimeField(db_default=Now())
    settled_at = models.DateTimeField(null=True)
    failure_kind = models.TextField(choices=FailureKind.choices, null=True)  # noqa: DJ001 - null: never failed
    failure_code = models.TextField(db_default="")
    failure_text = models.TextField(db_default="")
    failure_field = models.TextField(db_default="")
    superseded_by = models.ForeignKey(
        "self", null=True, on_delete=models.PROTECT, related_name="superseded", db_index=False
    )
    batch = models.ForeignKey(
        Batch,
        null=True,
        on_delete=models.PROTECT,
        related_name="messages",
        db_index=False,
        help_text="The mass update that wrote this version.",
    )
    line = models.IntegerField(
        null=True, help_text="Where the row begins in the mass update's file; 1 is its first line."
    )
    pile = models.TextField(null=True, help_text="The pile a mass message was planned into.")  # noqa: DJ001
    passed_at = models.DateTimeField(null=True, help_text="Since when others have had the lanes it needs.")
    requested_by = models.TextField(db_default="", help_text="Who asked for it to be sent again.")
    reason = models.TextField(db_default="")

    objects = OutboxMessageQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["record", "version"], name="outbox_once_per_version"),
            # outbox_enqueue absorbs the one pending message of a record
            models.UniqueConstraint(
                fields=["record"], name="outbox_one_pending_per_record", condition=Q(status="pending")
            ),
            models.UniqueConstraint(
                fields=["record"], name="outbox_one_claimed_per_record", condition=Q(status="claimed")
            ),
            # also a mass update's rows in the order of its file, and how many of them stand where
            models.UniqueConstraint(
                fields=["batch", "line"],
                name="outbox_once_per_line_of_a_batch",
                condition=Q(batch__isnull=False),
                include=["status"],
            ),
            models.CheckConstraint(
                condition=Q(
                    status__in=["pending", "claimed", "delivered", "dead", "superseded", "retried", "cancelled"]
                ),
                name="outbox_status_known",
            ),
            models.CheckConstraint(condition=Q(priority__in=[0, 1]), name="outbox_priority_known"),
            models.CheckConstraint(condition=Q(version__gte=1), name="outbox_version_counts_from_one"),
            models.CheckConstraint(condition=Q(attempts__gte=0), name="outbox_attempts_not_negative"),
            models.CheckConstraint(
                condition=Q(Exact(json_type("fields"), Value("object"))), name="outbox_fields_are_an_object"
            ),
            models.CheckConstraint(
                condition=Q(Exact(json_type("parents"), Value("array"))), name="outbox_parents_are_a_list"
            ),
            models.CheckConstraint(
                condition=Q(Exact(HasUnreadableParent(F("parents")), Value(False))),
                name="outbox_parents_are_readable",
            ),
            models.CheckConstraint(
                condition=Q(status="claimed", claim__isnull=False) | (~Q(status="claimed") & Q(claim__isnull=True)),
                name="outbox_claim_iff_claimed",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["pending", "claimed"], settled_at__isnull=True)
                | (~Q(status__in=["pending", "claimed"]) & Q(settled_at__isnull=False)),
                name="outbox_settled_at_iff_final",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["superseded", "retried"], superseded_by__isnull=False)
                | (~Q(status__in=["superseded", "retried"]) & Q(superseded_by__isnull=True)),
                name="outbox_superseded_by_iff_replaced",
            ),
            models.CheckConstraint(
                condition=~Q(status__in=["dead", "retried"]) | Q(failure_kind__isnull=False),
                name="outbox_dead_says_why",
            ),
            models.CheckConstraint(
                condition=Q(operation__in=["upsert", "update", "delete"]), name="outbox_operation_known"
            ),
            models.CheckConstraint(
                condition=Q(afterwards__isnull=True)
                | Q(afterwards__isnull=False, afterwards__in=["upsert", "update"], operation="delete"),
                name="outbox_afterwards_follows_a_deletion",
            ),
            models.CheckConstraint(
                condition=~Q(operation="delete")
                | Q(afterwards__isnull=False)
                | Q(
                    Exact(F("fields"), Value({}, models.JSONField())),
                    Exact(F("parents"), Value([], models.JSONField())),
                ),
                name="outbox_deletion_writes_nothing",
            ),
            models.CheckConstraint(
                condition=Q(batch__isnull=True, line__isnull=True)
                | Q(batch__isnull=False, line__isnull=False, line__gte=1),
                name="outbox_line_iff_of_a_batch",
            ),
            models.CheckConstraint(
                condition=~Q(status="cancelled") | Q(batch__isnull=False), name="outbox_only_mass_updates_are_cancelled"
            ),
        ]
        indexes = [
            # claim: the due head of one priority, oldest first; also the next due time
            models.Index(fields=["priority", "due_at", "id"], name="outbox_due", condition=Q(status="pending")),
            # plan: which mass updates have messages in no pile yet, and which those are
            models.Index(
                fields=["batch", "id"],
                name="outbox_unplanned",
                condition=Q(status="pending", pile__isnull=True, priority=1),
            ),
            # claim: the messages of a pile, oldest first
            models.Index(
                fields=["pile", "id"], name="outbox_of_pile", condition=Q(status="pending", pile__isnull=False)
            ),
            # claim: who has been passed over, the longest first
            models.Index(
                fields=["passed_at", "id"],
                name="outbox_passed_over",
                condition=Q(status="pending", passed_at__isnull=False),
            ),
            # settle and reap: the messages of a claim
            models.Index(fields=["claim"], name="outbox_of_claim", condition=Q(claim__isnull=False)),
            # what a version took over; without it, deleting messages would read the table once for each
            models.Index(
                fields=["superseded_by"], name="outbox_superseded_by", condition=Q(superseded_by__isnull=False)
            ),
            # admin: lock failures and other dead letters, newest first
            models.Index(fields=["failure_kind", "-settled_at"], name="outbox_dead", condition=Q(status="dead")),
        ]

    def __str__(self) -> str:
        return f"{self.record} version {self.version}, {self.status}"
