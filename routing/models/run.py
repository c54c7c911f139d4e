"""Runs of `assign_waiting`: leads given out in one go because a person asked, so that the whole can be undone."""

from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from routing.models.team import Team


class Run(models.Model):
    """One run of it. The assignments that it made say so (Assignment.run)."""

    team = models.ForeignKey(
        Team, on_delete=models.PROTECT, null=True, related_name="+", db_index=False, help_text="Empty: every team."
    )
    by = models.CharField(max_length=150)
    made_at = models.DateTimeField(db_default=Now())
    undone_at = models.DateTimeField(null=True)
    undone_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    undone: Any = models.JSONField(
        default=dict,
        db_default=models.Value({}, models.JSONField()),
        help_text="How many leads wait again; why others not.",
    )

    class Meta:
        verbose_name = "run of assign_waiting"
        verbose_name_plural = "runs of assign_waiting"
        constraints = [
            models.CheckConstraint(condition=~Q(by=""), name="run_says_who"),
            models.CheckConstraint(
                condition=Q(undone_at=None, undone_by="") | (Q(undone_at__isnull=False) & ~Q(undone_by="")),
                name="run_undone_by_iff_undone",
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.pk} by {self.by}"
