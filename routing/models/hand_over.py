"""Hand-overs: a rep's open leads given to the others in one go, so that the whole can be taken back."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from routing.models.team import Membership


class HandOver(models.Model):
    """One run of it. The assignments that it ended say so (Assignment.ended_in)."""

    membership = models.ForeignKey(Membership, on_delete=models.PROTECT, related_name="hand_overs")
    by = models.CharField(max_length=150)
    reason = models.CharField(max_length=300)
    turns_back = models.BooleanField(db_default=False, help_text="The turns spent on the leads were given back.")
    made_at = models.DateTimeField(db_default=Now())
    undone_at = models.DateTimeField(null=True)
    undone_by = models.CharField(max_length=150, blank=True, default="", db_default="")

    class Meta:
        verbose_name = "hand-over"
        constraints = [
            models.CheckConstraint(condition=~Q(by="") & ~Q(reason=""), name="hand_over_says_who_and_why"),
            models.CheckConstraint(
                condition=Q(undone_at=None, undone_by="") | (Q(undone_at__isnull=False) & ~Q(undone_by="")),
                name="hand_over_undone_by_iff_undone",
            ),
        ]

    def __str__(self) -> str:
        return f"leads of {self.membership}, by {self.by}"
