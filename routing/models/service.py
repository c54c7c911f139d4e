"""Service levels: leads that their rep did not work in time, and what was done about it."""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from routing.models.assignment import Assignment
from routing.models.lead import Lead


class ServiceBreachQuerySet(models.QuerySet["ServiceBreach"]):
    def still_open(self) -> Self:
        """Late, with the same rep, and nobody has worked the lead yet: what wants a person."""
        return self.filter(assignment__ended_at=None, lead__first_worked_at=None, lead__status=Lead.Status.ASSIGNED)


class ServiceBreach(models.Model):
    """An assignment whose lead was not worked within the team's working minutes. Once for each, whatever runs twice."""

    class Outcome(models.TextChoices):
        """nobody -> any other, each time it is looked at again; the others stay."""

        ALERTED = "alerted", "Shown under Late leads"
        MOVED = "moved", "Given to somebody else"
        CHOSEN = "chosen", "Left alone: a person chose this rep"
        ENOUGH = "enough", "Left alone: moved as often as the team allows"
        NOBODY = "nobody", "Nobody else can take it at the moment"

    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="breaches", db_index=False)
    lead = models.ForeignKey(Lead, on_delete=models.PROTECT, related_name="breaches")
    minutes = models.PositiveIntegerField(help_text="Working minutes that the team allowed.")
    outcome = models.CharField(max_length=7, choices=Outcome)
    breached_at = models.DateTimeField(db_default=Now())

    objects = ServiceBreachQuerySet.as_manager()

    class Meta:
        verbose_name = "late lead"
        constraints = [
            models.UniqueConstraint(fields=["assignment"], name="service_breach_once_per_assignment"),
            models.CheckConstraint(
                condition=Q(outcome__in=["alerted", "moved", "chosen", "enough", "nobody"]),
                name="service_breach_outcome_is_known",
            ),
            models.CheckConstraint(condition=Q(minutes__gte=1), name="service_breach_minutes_from_1"),
        ]

    def __str__(self) -> str:
        return f"{self.lead}, not worked within {self.minutes} min"
