"""Who may write under which lock of the CRM right now, and every try to write.

A lane is the right to write under one lock key. It belongs to one claim at a time, and a claim to one worker for as
long as its lease runs by the database's clock. A lease protects progress only; what protects the CRM record is that
an upsert by external id may be repeated.
"""

import uuid
from collections.abc import Iterable
from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

MOST_ROWS = 200  # Salesforce takes no more in one sObject Collections request


class ClaimQuerySet(models.QuerySet["Claim"]):
    def live(self) -> Self:
        return self.filter(ended_at__isnull=True)

    def expired(self) -> Self:
        """Still live, though its lease has run out by the database's clock."""
        return self.live().filter(lease_until__lt=Now())


class Claim(models.Model):
    """A worker's exclusive, temporary hold on a chunk of messages and on their lanes."""

    class EndReason(models.TextChoices):
        SETTLED = "settled"  # every message got its outcome
        RELEASED = "released"  # given back before the call
        EXPIRED = "expired"  # the reaper took it: its worker is dead or too slow

    token = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    worker = models.TextField()
    claimed_at = models.DateTimeField(db_default=Now())
    lease_until = models.DateTimeField()
    rank = models.IntegerField(
        db_default=0, help_text="Of the mass chunks that are ready, the one with the highest begins first."
    )
    begun_at = models.DateTimeField(null=True, help_text="From now on the CRM may have been written.")
    answered_at = models.DateTimeField(null=True, help_text="The CRM has answered: no call is under way any more.")
    ended_at = models.DateTimeField(null=True)
    end_reason = models.TextField(choices=EndReason.choices, null=True)  # noqa: DJ001 - null: not ended

    objects = ClaimQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, end_reason__isnull=True)
                | Q(
                    ended_at__isnull=False,
                    end_reason__isnull=False,
                    end_reason__in=["settled", "released", "expired"],
                ),
                name="claim_end_reason_iff_ended",
            ),
            models.CheckConstraint(
                condition=Q(lease_until__gt=models.F("claimed_at")), name="claim_lease_ends_after_it_starts"
            ),
            models.CheckConstraint(
                condition=Q(answered_at__isnull=True) | Q(begun_at__isnull=False), name="claim_answered_only_if_begun"
            ),
        ]
        indexes = [
            # reap: live claims, the longest expired first
            models.Index(fields=["lease_until"], name="claim_live", condition=Q(ended_at__isnull=True)),
            # reap: claims that ended before they began say nothing that the log does not; they are pruned
            models.Index(
                fields=["ended_at"],
                name="claim_never_begun",
                condition=Q(ended_at__isnull=False, begun_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.worker} {self.token}"


class LaneQuerySet(models.QuerySet["Lane"]):
    def free(self) -> Self:
        """Nobody writes under it, and neither a backoff nor a quarantine is running."""
        return self.filter(
            Q(quarantined_until__isnull=True) | Q(quarantined_until__lte=Now()),
            claim__isnull=True,
            not_before__lte=Now(),
        )

    def open_to(self, message_ids: Iterable[int]) -> Self:
        """Free, and reserved for nobody else."""
        return self.free().filter(
            Q(reserved_until__isnull=True) | Q(reserved_until__lte=Now()) | Q(reserved_for__in=list(message_ids))
        )


class Lane(models.Model):
    """The right to write under one lock key. Missing lanes are inserted when wanted and pruned when idle."""

    key = models.TextField(primary_key=True)
    claim = models.ForeignKey(Claim, null=True, on_delete=models.PROTECT, related_name="lanes", db_index=False)
    not_before = models.DateTimeField(
        db_default=Now(), help_text="Backoff runs until then; in the past: idle since then."
    )
    failures = models.SmallIntegerField(db_default=0, help_text="Lock failures in a row.")
    most_rows = models.SmallIntegerField(
        db_default=MOST_ROWS, help_text="Of a chunk that uses it: halved by a failure, a quarter more after five clean."
    )
    clean_run = models.SmallIntegerField(
        db_default=0, help_text="Chunks without a failure since its rows last changed."
    )
    quarantined_until = models.DateTimeField(
        null=True, help_text="A call nobody answers for any more may still commit until then."
    )
    reserved_for = models.BigIntegerField(null=True, help_text="The message that waited too long for it.")
    reserved_since = models.DateTimeField(null=True, help_text="Since when that message has been passed over.")
    reserved_until = models.DateTimeField(null=True)

    held_until = models.DateTimeField(null=True, help_text="A person keeps it closed until then.")
    held_by = models.TextField(db_default="")
    held_reason = models.TextField(db_default="")

    objects = LaneQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(held_until__isnull=True, held_by="") | (Q(held_until__isnull=False) & ~Q(held_by="")),
                name="lane_held_by_iff_held",
            ),
            # so that whoever asks for the end of a backoff sees the hold, too
            models.CheckConstraint(
                condition=Q(held_until__isnull=True)
                | Q(claim__isnull=False)
                | Q(held_until__isnull=False, not_before__gte=models.F("held_until")),
                name="lane_hold_keeps_it_closed",
            ),
            models.CheckConstraint(condition=Q(failures__gte=0), name="lane_failures_not_negative"),
            models.CheckConstraint(condition=~Q(key=""), name="lane_key_not_empty"),
            models.CheckConstraint(condition=Q(most_rows__gte=1), name="lane_takes_at_least_one_row"),
            models.CheckConstraint(condition=Q(clean_run__gte=0), name="lane_clean_run_not_negative"),
            models.CheckConstraint(
                condition=Q(reserved_for__isnull=True, reserved_since__isnull=True, reserved_until__isnull=True)
                | Q(reserved_for__isnull=False, reserved_since__isnull=False, reserved_until__isnull=False),
                name="lane_reserved_for_since_until_together",
            ),
        ]
        indexes = [
            # settle and reap: the lanes of a claim
            models.Index(fields=["claim"], name="lane_of_claim", condition=Q(claim__isnull=False)),
            # reap: idle lanes, the longest idle first
            models.Index(fields=["not_before"], name="lane_idle", condition=Q(claim__isnull=True)),
        ]

    def __str__(self) -> str:
        return self.key


class Attempt(models.Model):
    """One try to write one message, committed as begun before the call leaves."""

    message = models.ForeignKey("crmsync.OutboxMessage", on_delete=models.PROTECT, related_name="tries", db_index=False)
    claim = models.ForeignKey(Claim, on_delete=models.PROTECT, related_name="tries")
    number = models.SmallIntegerField(
        help_text="Which of the message's charged attempts this is, should it be charged."
    )
    begun_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    outcome = models.TextField(null=True, help_text="delivered, or the kind of failure.")  # noqa: DJ001 - null: open
    code = models.TextField(db_default="")
    text = models.TextField(db_default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["message", "claim"], name="attempt_once_per_claim"),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, outcome__isnull=True)
                | Q(ended_at__isnull=False, outcome__isnull=False),
                name="attempt_outcome_iff_ended",
            ),
        ]
        indexes = [
            # contention report: the attempts of a period
            models.Index(fields=["begun_at"], name="attempt_by_time"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of message {self.message_id}, {self.outcome or 'open'}"


class OrgState(models.Model):
    """The one row that says whether Rota may write to the org, and how many mass chunks at once; none is none yet."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    paused_until = models.DateTimeField(null=True)
    paused_reason = models.TextField(db_default="")
    failures = models.SmallIntegerField(db_default=0, help_text="Requests in a row that the org did not take.")
    owners_read_until = models.DateTimeField(
        null=True, help_text="The org's time up to which changes of owners were read back."
    )
    concurrency = models.FloatField(db_default=4.0, help_text="Mass chunks at once: learned, one more or half as many.")
    window_at = models.DateTimeField(null=True, help_text="Since when the rows below are counted.")
    window_rows = models.IntegerField(db_default=0)
    window_locked = models.IntegerField(db_default=0, help_text="Of these, rows that failed for locks.")
    cut_at = models.DateTimeField(null=True, help_text="When the concurrency was last halved.")
    mass_paused_until = models.DateTimeField(null=True, help_text="Mass updates wait; what people wait for goes on.")
    mass_paused_reason = models.TextField(db_default="")
    bulk_paused_until = models.DateTimeField(null=True, help_text="No bulk jobs; mass updates go by Collections.")
    bulk_paused_reason = models.TextField(db_default="")
    stopped_at = models.DateTimeField(null=True, help_text="A person stopped it; nothing is begun until one resumes.")
    stopped_by = models.TextField(db_default="")
    stopped_reason = models.TextField(db_default="")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="org_state_is_one_row"),
            models.CheckConstraint(
                condition=Q(stopped_at__isnull=True, stopped_by="") | (Q(stopped_at__isnull=False) & ~Q(stopped_by="")),
                name="org_state_stopped_by_iff_stopped",
            ),
            models.CheckConstraint(condition=Q(failures__gte=0), name="org_state_failures_not_negative"),
            models.CheckConstraint(condition=Q(concurrency__gte=1), name="org_state_concurrency_at_least_one"),
            models.CheckConstraint(
                condition=Q(paused_until__isnull=True, paused_reason="")
                | (Q(paused_until__isnull=False) & ~Q(paused_reason="")),
                name="org_state_reason_iff_paused",
            ),
            models.CheckConstraint(
                condition=Q(mass_paused_until__isnull=True, mass_paused_reason="")
                | (Q(mass_paused_until__isnull=False) & ~Q(mass_paused_reason="")),
                name="org_state_mass_reason_iff_paused",
            ),
            models.CheckConstraint(
                condition=Q(bulk_paused_until__isnull=True, bulk_paused_reason="")
                | (Q(bulk_paused_until__isnull=False) & ~Q(bulk_paused_reason="")),
                name="org_state_bulk_reason_iff_paused",
            ),
        ]

    def __str__(self) -> str:
        if self.stopped_at:
            return f"stopped by {self.stopped_by}: {self.stopped_reason}"
        return f"paused: {self.paused_reason}" if self.paused_until else "writing"
