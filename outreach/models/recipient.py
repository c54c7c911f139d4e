"""Addresses that campaigns write to, and those of them that want no more mail.

An address is compared in one form (`key`), so that capitals or another spelling of a domain make no second person.
"""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Now

from outreach.models.conditions import Among, Iff


class Recipient(models.Model):
    """An address under the key by which it is compared. The gate and a suppression take turns on this row."""

    key = models.CharField(max_length=320, help_text="Normalised and in lower case: one person, one key.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["key"], name="recipient_key_once"),
            models.CheckConstraint(condition=~Q(key=""), name="recipient_key_is_set"),
            models.CheckConstraint(condition=Q(key=Lower(F("key"))), name="recipient_key_in_lower_case"),
        ]

    def __str__(self) -> str:
        return f"recipient {self.pk}"


class Suppression(models.Model):
    """From now on no campaign writes to this address. Lifted by a person only, with a reason."""

    class Reason(models.TextChoices):
        UNSUBSCRIBED = "unsubscribed", "Unsubscribed"
        COMPLAINED = "complained", "Complained"
        BOUNCED = "bounced", "The mailbox refuses mail for good"
        ASKED = "asked", "A person entered it"

    recipient = models.ForeignKey(Recipient, on_delete=models.PROTECT, related_name="suppressions", db_index=False)
    reason = models.CharField(max_length=12, choices=Reason)
    detail = models.TextField(blank=True, default="", db_default="")
    suppressed_at = models.DateTimeField(db_default=Now(), editable=False)
    lifted_at = models.DateTimeField(null=True, blank=True, editable=False)
    lifted_because = models.TextField(blank=True, default="", db_default="")

    class Meta:
        constraints = [
            # the gate: is this address suppressed
            models.UniqueConstraint(
                fields=["recipient"], condition=Q(lifted_at=None), name="suppression_one_current_per_recipient"
            ),
            models.CheckConstraint(
                condition=Among("reason", ["unsubscribed", "complained", "bounced", "asked"]),
                name="suppression_reason_is_known",
            ),
            models.CheckConstraint(
                condition=Iff(Q(lifted_at=None), Q(lifted_because="")),
                name="suppression_lifted_because_iff_lifted",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reason} {self.suppressed_at:%Y-%m-%d}"
