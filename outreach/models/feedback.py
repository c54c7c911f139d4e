"""What relays, providers and agents report of mails after they left: facts, each once, and what each of them did."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from outreach.models.attempt import SendAttempt
from outreach.models.conditions import Among
from outreach.models.recipient import Recipient


class ProviderEvent(models.Model):
    """One report. `event_id` is the reporter's own, or made of all that the report says: told twice, kept once."""

    class Kind(models.TextChoices):
        SENT = "sent", "Taken by the provider"
        DELIVERED = "delivered", "Delivered"
        DEFERRED = "deferred", "Not delivered yet"
        SOFT_BOUNCED = "soft_bounced", "Bounced, for now"
        BOUNCED = "bounced", "Bounced: the mailbox refuses mail"
        REJECTED = "rejected", "Not sent on by the provider"
        COMPLAINED = "complained", "Complained"
        UNSUBSCRIBED = "unsubscribed", "Unsubscribed"
        OPENED = "opened", "Opened"
        CLICKED = "clicked", "Clicked"
        REPLIED = "replied", "Replied"
        CONVERTED = "converted", "Converted"
        OTHER = "other", "Something else"

    IT_WENT = (
        Kind.SENT, Kind.DELIVERED, Kind.DEFERRED, Kind.SOFT_BOUNCED, Kind.BOUNCED, Kind.COMPLAINED, Kind.UNSUBSCRIBED,
        Kind.OPENED, Kind.CLICKED, Kind.REPLIED, Kind.CONVERTED,
    )  # fmt: skip
    """None of these could be said of a mail that never left."""
    IT_DID_NOT = (Kind.REJECTED,)

    source = models.CharField(max_length=110, help_text="Who reported it.")
    event_id = models.CharField(max_length=200)
    kind = models.CharField(max_length=12, choices=Kind)
    mail_id = models.CharField("Message-ID", max_length=320, blank=True, default="", db_default="")
    address = models.CharField(max_length=320, blank=True, default="", db_default="", help_text="As compared.")
    occurred_at = models.DateTimeField(null=True, help_text="As reported.")
    received_at = models.DateTimeField(db_default=Now())
    detail = models.CharField(max_length=500, blank=True, default="", db_default="")
    attempt = models.ForeignKey(
        SendAttempt, on_delete=models.PROTECT, null=True, related_name="reports", db_index=False
    )
    recipient = models.ForeignKey(Recipient, on_delete=models.PROTECT, null=True, related_name="reports")
    effect = models.CharField(max_length=60, blank=True, default="", db_default="", help_text="What it changed.")

    class Meta:
        verbose_name = "report on a mail"
        verbose_name_plural = "reports on mails"
        constraints = [
            models.UniqueConstraint(fields=["source", "event_id"], name="provider_event_once"),
            models.CheckConstraint(condition=~Q(source="") & ~Q(event_id=""), name="provider_event_is_named"),
            models.CheckConstraint(condition=~Q(mail_id="") | ~Q(address=""), name="provider_event_is_about_somebody"),
            models.CheckConstraint(
                condition=Among(
                    "kind",
                    [
                        "sent", "delivered", "deferred", "soft_bounced", "bounced", "rejected", "complained",
                        "unsubscribed", "opened", "clicked", "replied", "converted", "other",
                    ],
                ),
                name="provider_event_kind_is_known",
            ),
        ]  # fmt: skip
        indexes = [
            # evidence on a mail in doubt
            models.Index(fields=["mail_id"], condition=~Q(mail_id=""), name="provider_event_by_mail_id"),
        ]

    def __str__(self) -> str:
        return f"{self.kind}, {self.source}"
