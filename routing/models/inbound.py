"""What senders delivered: requests as they came, the events in them, and what still has to be fetched."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from routing.models.lead import Lead
from routing.models.source import InboundSource


class Delivery(models.Model):
    """One request of a sender with a good signature, as it came. The body is kept where it said something new, for
    BODY_KEPT_DAYS. A request with several events names none of them.
    """

    class Verdict(models.TextChoices):
        ACCEPTED = "accepted", "Accepted"
        REPLAYED = "replayed", "Replayed: the same event with the same body"
        CONFLICTING = "conflicting", "Conflicting: the same event id with another body"

    source = models.ForeignKey(InboundSource, on_delete=models.PROTECT, related_name="deliveries")
    request_id = models.CharField(max_length=64)
    event_id = models.CharField(max_length=200)
    events = models.PositiveIntegerField(default=1, db_default=1, help_text="How many it brought.")
    verdict = models.CharField(max_length=11, choices=Verdict)
    digest = models.CharField(max_length=64, help_text="SHA-256 of the body.")
    body = models.BinaryField(null=True)
    received_at = models.DateTimeField(db_default=Now())
    pruned_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.CheckConstraint(
                condition=Q(verdict__in=["accepted", "replayed", "conflicting"]), name="delivery_verdict_is_known"
            ),
            models.CheckConstraint(
                condition=Q(verdict="replayed", body=None)
                | (~Q(verdict="replayed") & Q(body__isnull=False, pruned_at=None))
                | (~Q(verdict="replayed") & Q(body=None, pruned_at__isnull=False)),
                name="delivery_body_unless_replayed_or_pruned",
            ),
            models.CheckConstraint(
                condition=(Q(events=1) & ~Q(event_id="")) | (~Q(events=1) & Q(event_id="")),
                name="delivery_names_the_event_iff_one",
            ),
        ]
        indexes = [
            # pruning: how far it has come; nothing on the way in pays for it
            models.Index(fields=["id"], condition=Q(pruned_at__isnull=False), name="delivery_pruned"),
        ]

    def __str__(self) -> str:
        return f"{self.event_id} ({self.verdict})"


STUCK = ("refused", "failed")
"""Outcomes of events that made no lead and want a person."""


class InboundEventQuerySet(models.QuerySet["InboundEvent"]):
    def stuck(self) -> "InboundEventQuerySet":
        """Those that were refused, or not to be had from the sender's API."""
        return self.filter(outcome__in=STUCK)


class InboundEvent(models.Model):
    """Something a sender reported once, whatever number of times it was delivered, and what became of it."""

    class Outcome(models.TextChoices):
        """fetching -> created, touched, refused or failed; refused, failed or ignored -> any, when a person replays."""

        CREATED = "created", "Made a new lead"
        TOUCHED = "touched", "Touched a known open lead"
        FETCHING = "fetching", "Is being fetched"
        REFUSED = "refused", "Refused: no lead can be made of it"
        FAILED = "failed", "Could not be fetched"
        IGNORED = "ignored", "Ignored: brings no lead"

    LANDED = (Outcome.CREATED, Outcome.TOUCHED)
    EXPLAINED = (Outcome.REFUSED, Outcome.FAILED, Outcome.IGNORED)

    # Its own index would be one more to keep: inbound_event_once and inbound_event_of_source begin with it.
    source = models.ForeignKey(InboundSource, on_delete=models.PROTECT, related_name="events", db_index=False)
    event_id = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, help_text="SHA-256 of the body.")
    lead = models.ForeignKey(Lead, on_delete=models.PROTECT, null=True, blank=True, related_name="events")
    outcome = models.CharField(max_length=8, choices=Outcome, blank=True, default="", db_default="")
    because = models.TextField(blank=True, default="", db_default="", help_text="Why it made no lead; never values.")
    payload = models.JSONField()
    received_at = models.DateTimeField(db_default=Now())

    objects = InboundEventQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "event_id"], name="inbound_event_once"),
            models.CheckConstraint(
                condition=Q(lead=None, outcome__in=["", "fetching", "refused", "failed", "ignored"])
                | Q(lead__isnull=False, outcome__in=["created", "touched"]),
                name="inbound_event_outcome_iff_lead",
            ),
            models.CheckConstraint(
                condition=(Q(outcome__in=["refused", "failed", "ignored"]) & ~Q(because=""))
                | (~Q(outcome__in=["refused", "failed", "ignored"]) & Q(because="")),
                name="inbound_event_says_why_it_made_no_lead",
            ),
            models.CheckConstraint(condition=~Q(event_id=""), name="inbound_event_has_an_id"),
        ]
        indexes = [
            # the admin's list of a source, its preview and its silence: the newest first
            models.Index(fields=["source", "-id"], name="inbound_event_of_source"),
            # the admin's tabs of what wants a person
            models.Index(
                fields=["outcome", "-id"],
                condition=Q(outcome__in=["refused", "failed", "fetching"]),
                name="inbound_event_without_a_lead",
            ),
        ]

    def __str__(self) -> str:
        return self.event_id


class Fetch(models.Model):
    """The lead behind an event that came as an id only: asked for at the sender's API until there is an answer.

    Due while `due_at` is set. Who takes it moves `due_at` to the end of a lease, so that a dead worker's is due again;
    whoever settles it names the `claim` it was taken with.
    """

    class Trouble(models.TextChoices):
        TOKEN = "token", "The token was refused"
        LIMITED = "limited", "Too many calls"
        GONE = "gone", "It is not there"
        LATER = "later", "No good answer"

    event = models.OneToOneField(InboundEvent, on_delete=models.PROTECT, primary_key=True, related_name="fetch")
    remote_id = models.CharField(max_length=200)
    due_at = models.DateTimeField(null=True, db_default=Now())
    claim = models.UUIDField(null=True, editable=False)
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    trouble = models.CharField(max_length=7, choices=Trouble, blank=True, default="", db_default="")
    said = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="What came of the last try."
    )
    answer = models.JSONField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(remote_id=""), name="fetch_has_an_id"),
            models.CheckConstraint(
                condition=Q(trouble__in=["", "token", "limited", "gone", "later"]), name="fetch_trouble_is_known"
            ),
            models.CheckConstraint(
                condition=Q(due_at=None) | Q(answer__isnull=True), name="fetch_due_only_without_an_answer"
            ),
        ]
        indexes = [
            # whoever fetches: the longest due first
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="fetch_due"),
            # pruning: answers that are still kept, the oldest first
            models.Index(fields=["event"], condition=Q(answer__isnull=False), name="fetch_answered"),
        ]

    def __str__(self) -> str:
        return self.remote_id
