"""What happened to every message, in order: who did it, which layer allowed or stopped it. Never changed.

Played back in the order of `id`, the events of a message give its status: `before` is always the `after` of the last.
"""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from outreach.models.conditions import Among, Iff


class OutreachEvent(models.Model):
    """One thing that happened. Without a message: a sender that did not start, or stopped."""

    class Kind(models.TextChoices):
        CLAIMED = "claimed", "Claimed"
        RELEASED = "released", "Released"
        EXPIRED = "expired", "Claim expired"
        BEGUN = "begun", "Begun: the intent is committed"
        SENT = "sent", "Sent"
        DEFERRED = "deferred", "Refused for now"
        REFUSED = "refused", "Refused for good"
        IN_DOUBT = "in_doubt", "In doubt"
        STOPPED = "stopped", "Stopped before it began"
        TURNED_AWAY = "turned_away", "Turned away by a layer"
        LATE = "late", "Evidence that came late"
        RESOLVED = "resolved", "Resolved by a person"

    class Layer(models.TextChoices):
        JOB_LOCK = "job_lock", "Job lock"
        CLAIM = "claim", "Claim"
        GATE = "gate", "Gate"
        SETTLE = "settle", "Settle"
        REAPER = "reaper", "Reaper"
        PERSON = "person", "Person"

    at = models.DateTimeField(db_default=Now())
    kind = models.CharField(max_length=11, choices=Kind)
    layer = models.CharField(max_length=8, choices=Layer)
    worker = models.CharField(max_length=200)
    # Whoever writes an event holds what it tells of: to have the server look again was a tenth of what a mail cost.
    message = models.ForeignKey(
        "outreach.Message",
        on_delete=models.PROTECT,
        null=True,
        related_name="events",
        db_index=False,
        db_constraint=False,
    )
    claim = models.ForeignKey(
        "outreach.Claim",
        on_delete=models.PROTECT,
        null=True,
        related_name="events",
        db_index=False,
        db_constraint=False,
    )
    attempt = models.ForeignKey(
        "outreach.SendAttempt",
        on_delete=models.PROTECT,
        null=True,
        related_name="events",
        db_index=False,
        db_constraint=False,
    )
    before = models.CharField(max_length=10, blank=True, default="", db_default="")
    after = models.CharField(max_length=10, blank=True, default="", db_default="")
    reason = models.CharField(max_length=200, blank=True, default="", db_default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Iff(Q(message=None), Q(before="")) & Iff(Q(message=None), Q(after="")),
                name="outreach_event_before_and_after_iff_message",
            ),
            models.CheckConstraint(
                condition=Among("layer", ["job_lock", "claim", "gate", "settle", "reaper", "person"]),
                name="outreach_event_layer_is_known",
            ),
        ]
        indexes = [
            # the story of one message
            models.Index(
                fields=["message", "id"], condition=Q(message__isnull=False), name="outreach_event_of_message"
            ),
            # what the layers turned away, newest first
            models.Index(fields=["-id"], condition=Q(kind="turned_away"), name="outreach_event_turned_away"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} at {self.at:%Y-%m-%d %H:%M:%S}"
