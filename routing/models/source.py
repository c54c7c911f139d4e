"""Where leads come from, and every delivery and event that came from there."""

import base64
import binascii
import secrets

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from routing.models.lead import Lead
from routing.models.rule import RuleBook
from routing.models.team import Team


def new_secret() -> str:
    """A fresh Standard Webhooks secret: whsec_ and 32 random bytes in base64."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def validate_secret(value: str) -> None:
    """Raise ValidationError unless `value` is whsec_ followed by 24 to 64 bytes in base64 (Standard Webhooks 1.0)."""
    try:
        key = base64.b64decode(value.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not value.startswith("whsec_") or not 24 <= len(key) <= 64:
        raise ValidationError("A secret is whsec_ followed by 24 to 64 random bytes in base64.")


class InboundSourceQuerySet(models.QuerySet["InboundSource"]):
    def with_book(self) -> "InboundSourceQuerySet":
        """Each with `book_id`, the key of the rule book that is published at this moment."""
        published = RuleBook.objects.filter(status=RuleBook.Status.PUBLISHED).values("pk")
        return self.annotate(book_id=models.Subquery(published))


class InboundSource(models.Model):
    """A sender of leads: a form, a webinar tool, another system. It posts to /in/<slug>."""

    slug = models.SlugField(max_length=50, help_text="The last part of its webhook address, /in/<slug>.")
    name = models.CharField(max_length=100)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="sources", help_text="Takes its leads.")
    sticky_owner = models.BooleanField(
        default=True, db_default=True, help_text="Somebody who comes back goes to the rep who had them last."
    )
    account_owner = models.BooleanField(
        default=True, db_default=True, help_text="A lead of a known company goes to the rep who owns its account."
    )
    secret = models.CharField(max_length=128, default=new_secret, validators=[validate_secret])
    previous_secret = models.CharField(
        max_length=128,
        blank=True,
        default="",
        db_default="",
        validators=[validate_secret],
        help_text="Still accepted while senders change over; empty it when they have.",
    )
    active = models.BooleanField(default=True, db_default=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = InboundSourceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["slug"], name="inbound_source_slug_once"),
            models.CheckConstraint(condition=~Q(secret=""), name="inbound_source_has_a_secret"),
        ]

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One request of a sender with a good signature, as it came. The body is kept where it said something new."""

    class Verdict(models.TextChoices):
        ACCEPTED = "accepted", "Accepted"
        REPLAYED = "replayed", "Replayed: the same event with the same body"
        CONFLICTING = "conflicting", "Conflicting: the same event id with another body"

    source = models.ForeignKey(InboundSource, on_delete=models.PROTECT, related_name="deliveries")
    request_id = models.CharField(max_length=64)
    event_id = models.CharField(max_length=200)
    verdict = models.CharField(max_length=11, choices=Verdict)
    digest = models.CharField(max_length=64, help_text="SHA-256 of the body.")
    body = models.BinaryField(null=True)
    received_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.CheckConstraint(
                condition=Q(verdict__in=["accepted", "replayed", "conflicting"]), name="delivery_verdict_is_known"
            ),
            models.CheckConstraint(
                condition=Q(verdict="replayed", body=None) | (~Q(verdict="replayed") & Q(body__isnull=False)),
                name="delivery_body_unless_replayed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event_id} ({self.verdict})"


class InboundEvent(models.Model):
    """Something a sender reported once, whatever number of times it was delivered, and what became of it."""

    class Outcome(models.TextChoices):
        CREATED = "created", "Made a new lead"
        TOUCHED = "touched", "Touched a known open lead"

    source = models.ForeignKey(InboundSource, on_delete=models.PROTECT, related_name="events")
    event_id = models.CharField(max_length=200)
    digest = models.CharField(max_length=64, help_text="SHA-256 of the body.")
    lead = models.ForeignKey(Lead, on_delete=models.PROTECT, null=True, blank=True, related_name="events")
    outcome = models.CharField(max_length=7, choices=Outcome, blank=True, default="", db_default="")
    payload = models.JSONField()
    received_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "event_id"], name="inbound_event_once"),
            models.CheckConstraint(
                condition=Q(lead=None, outcome="") | (Q(lead__isnull=False) & ~Q(outcome="")),
                name="inbound_event_outcome_iff_lead",
            ),
            models.CheckConstraint(condition=~Q(event_id=""), name="inbound_event_has_an_id"),
        ]

    def __str__(self) -> str:
        return self.event_id
