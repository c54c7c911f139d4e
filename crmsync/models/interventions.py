"""What people did to the writing by hand: who, when and why, for as long as anybody may ask."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class Intervention(models.Model):
    """One deed of a person. Written in the transaction of the deed, never changed."""

    class Kind(models.TextChoices):
        HELD = "held", "Lane held"
        RELEASED = "released", "Lane released"
        STOPPED = "stopped", "Org stopped"
        RESUMED = "resumed", "Org resumed"
        RETRIED = "retried", "Sent again"
        BATCH_PAUSED = "batch_paused", "Mass update paused"
        BATCH_RESUMED = "batch_resumed", "Mass update resumed"
        BATCH_CANCELLED = "batch_cancelled", "Mass update cancelled"

    kind = models.TextField(choices=Kind.choices)
    about = models.TextField(db_default="", help_text="The lock key, the filter or the mass update it was done to.")
    at = models.DateTimeField(db_default=Now())
    by = models.TextField()
    reason = models.TextField(db_default="")
    until = models.DateTimeField(null=True, help_text="How long a lane is held.")
    count = models.IntegerField(null=True, help_text="How many messages it was about.")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    kind__in=[
                        "held",
                        "released",
                        "stopped",
                        "resumed",
                        "retried",
                        "batch_paused",
                        "batch_resumed",
                        "batch_cancelled",
                    ]
                ),
                name="intervention_kind_known",
            ),
            models.CheckConstraint(condition=~Q(by=""), name="intervention_says_who"),
            models.CheckConstraint(
                condition=~Q(kind="held") | Q(until__isnull=False), name="intervention_hold_says_until_when"
            ),
        ]
        indexes = [
            # the pages of a lane and of a mass update: what was done to it, newest first
            models.Index(fields=["about", "-at"], name="intervention_about"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} by {self.by}"


class Pruning(models.Model):
    """The one row that says how far the pruning of old messages has come in its way round the table."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    after = models.BigIntegerField(db_default=0, help_text="The last message looked at.")

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="pruning_is_one_row")]

    def __str__(self) -> str:
        return f"after message {self.after}"
