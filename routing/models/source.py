"""Where leads come from, and how each sender is known and understood."""

import base64
import binascii
import secrets

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from routing.kinds import STANDARD
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

    def silent(self) -> "InboundSourceQuerySet":
        """Those from which nothing came for longer than they promise."""
        return self.filter(silent_since__isnull=False)


class InboundSource(models.Model):
    """A sender of leads: a form, a webinar tool, another system. It posts to /in/<slug>."""

    slug = models.SlugField(max_length=50, help_text="The last part of its webhook address, /in/<slug>.")
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=30, default=STANDARD, db_default=STANDARD, help_text="A file in routing/kinds.")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="sources", help_text="Takes its leads.")
    sticky_owner = models.BooleanField(
        default=True, db_default=True, help_text="Somebody who comes back goes to the rep who had them last."
    )
    account_owner = models.BooleanField(
        default=True, db_default=True, help_text="A lead of a known company goes to the rep who owns its account."
    )
    secret = models.CharField(max_length=128, default=new_secret)
    previous_secret = models.CharField(
        max_length=128,
        blank=True,
        default="",
        db_default="",
        help_text="Still accepted while senders change over; empty it when they have.",
    )
    verify_token = models.CharField(
        max_length=100, blank=True, default="", db_default="", help_text="The sender shows it in its handshake by GET."
    )
    api_token = models.CharField(
        max_length=500, blank=True, default="", db_default="", help_text="Fetches what the sender's events only name."
    )
    api_url = models.CharField(max_length=200, blank=True, default="", db_default="", help_text="Empty: the usual one.")
    mapping = models.JSONField(
        default=dict,
        db_default=models.Value({}, models.JSONField()),
        blank=True,
        help_text="By our field, the sender's names of it; the first with a value counts.",
    )
    expects_within_h = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="Alarm when no event came for so many hours; empty: never."
    )
    watched_from = models.DateTimeField(db_default=Now(), editable=False)
    silent_since = models.DateTimeField(null=True, blank=True, editable=False)
    active = models.BooleanField(default=True, db_default=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = InboundSourceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["slug"], name="inbound_source_slug_once"),
            models.CheckConstraint(condition=~Q(secret=""), name="inbound_source_has_a_secret"),
            models.CheckConstraint(condition=~Q(kind=""), name="inbound_source_has_a_kind"),
            models.CheckConstraint(
                condition=Q(expects_within_h=None) | Q(expects_within_h__gte=1),
                name="inbound_source_expects_from_1_hour",
            ),
            models.CheckConstraint(
                condition=Q(silent_since=None) | Q(expects_within_h__isnull=False),
                name="inbound_source_silent_only_if_expected",
            ),
        ]

    def __str__(self) -> str:
        return self.name
