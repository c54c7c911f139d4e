"""Who got which lead, in which turn, and out of whom: facts that are ended, never deleted."""

from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from routing.models.hand_over import HandOver
from routing.models.lead import Lead
from routing.models.run import Run
from routing.models.team import Membership, Team


class Roster(models.Model):
    """An immutable set of candidates, written only when they change, so that a thousand turns share one row.

    `candidates` maps membership ids to their weights; `skipped` maps the other members' ids to the reason.
    """

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="rosters")
    digest = models.CharField(max_length=32)
    candidates: Any = models.JSONField()
    skipped: Any = models.JSONField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "digest"], name="roster_once")]

    def __str__(self) -> str:
        return f"{len(self.candidates)} candidates"


class AssignmentQuerySet(models.QuerySet["Assignment"]):
    def current(self) -> "AssignmentQuerySet":
        return self.filter(ended_at=None)


class Assignment(models.Model):
    """A lead given to a member in a numbered turn. Ended with a reason when the lead moves on.

    A person's choice is a numbered turn too, with one candidate that moves nobody, or where the team lets direct leads
    count, with those present; so a replay by turn needs no exception.
    """

    class EndReason(models.TextChoices):
        CLOSED = "closed", "The lead was closed"
        REASSIGNED = "reassigned", "Given to somebody else"
        DECLINED = "declined", "Declined"
        UNDONE = "undone", "Undone"
        TAKEN_OVER = "taken_over", "Owner changed in the CRM"
        LATE = "late", "Not worked in time"

    lead = models.ForeignKey(Lead, on_delete=models.PROTECT, related_name="assignments")
    membership = models.ForeignKey(Membership, on_delete=models.PROTECT, related_name="assignments", db_index=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="assignments", db_index=False)
    turn = models.BigIntegerField()
    roster = models.ForeignKey(Roster, on_delete=models.PROTECT, related_name="assignments", db_index=False)
    preferred = models.BooleanField(db_default=False, help_text="Taken by the preferred member, past the turns.")
    run = models.ForeignKey(
        Run, on_delete=models.PROTECT, null=True, blank=True, related_name="assignments", db_index=False
    )
    lag_before = models.BigIntegerField()
    lag_after = models.BigIntegerField()
    chosen_by = models.CharField(
        max_length=150,
        blank=True,
        default="",
        db_default="",
        help_text="The person who gave it by hand; no automatic move overwrites that. Empty: it was a turn's doing.",
    )
    note = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Why it was given by hand."
    )
    assigned_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=10, choices=EndReason, blank=True, default="", db_default="")
    ended_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    ended_in = models.ForeignKey(
        HandOver, on_delete=models.PROTECT, null=True, blank=True, related_name="ended", db_index=False
    )
    end_note = models.CharField(max_length=300, blank=True, default="", db_default="")

    objects = AssignmentQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lead"], condition=Q(ended_at=None), name="assignment_one_current_per_lead"
            ),
            models.UniqueConstraint(fields=["team", "turn"], name="assignment_turn_once_per_team"),
            models.CheckConstraint(
                condition=Q(ended_at=None, end_reason="") | (Q(ended_at__isnull=False) & ~Q(end_reason="")),
                name="assignment_end_reason_iff_ended",
            ),
            models.CheckConstraint(condition=Q(turn__gte=1), name="assignment_turn_from_1"),
            models.CheckConstraint(
                condition=Q(chosen_by="") | ~Q(note=""), name="assignment_chosen_by_a_person_has_a_reason"
            ),
        ]
        indexes = [
            # setting a cap counts a rep's assignments since a date; the admin's list of a rep, newest first
            models.Index(fields=["membership", "-assigned_at"], name="assignment_by_member"),
            # taking a hand-over back
            models.Index(fields=["ended_in"], condition=Q(ended_in__isnull=False), name="assignment_of_hand_over"),
            # undoing a run
            models.Index(fields=["run", "lead"], condition=Q(run__isnull=False), name="assignment_of_run"),
            # notices and service levels: the latest assignments that are still current
            models.Index(fields=["assigned_at"], condition=Q(ended_at=None), name="assignment_current_by_time"),
        ]

    def __str__(self) -> str:
        return f"turn {self.turn} of {self.team}"
