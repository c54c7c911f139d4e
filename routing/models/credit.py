"""Credits: leads that a person adds to or takes from what a member is owed, with the reason."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from routing.models.team import SCALE, Membership


class Credit(models.Model):
    """A line in the ledger of a member's lag. The lags of a team add up to its credits; all else in them is turns."""

    class Kind(models.TextChoices):
        MANUAL = "manual", "Given by a person"
        UNDONE = "undone", "A turn was given back"

    membership = models.ForeignKey(Membership, on_delete=models.PROTECT, related_name="credits")
    kind = models.CharField(max_length=6, choices=Kind)
    amount = models.BigIntegerField(help_text="In units of lag; below nought: the member is owed less.")
    after_turn = models.BigIntegerField(help_text="The team's latest turn when it was given.")
    reason = models.CharField(max_length=300)
    by = models.CharField(max_length=150, help_text="Who gave it.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(amount=0), name="credit_moves_something"),
            models.CheckConstraint(condition=~Q(reason="") & ~Q(by=""), name="credit_has_a_reason_and_a_giver"),
            models.CheckConstraint(condition=Q(kind__in=["manual", "undone"]), name="credit_kind_is_known"),
        ]

    def __str__(self) -> str:
        return f"{self.leads:+.2f} leads for {self.membership}"

    @property
    def leads(self) -> float:
        """The amount in leads."""
        return self.amount / SCALE
