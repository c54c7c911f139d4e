"""Who is enrolled in a campaign, and every single mail that follows from it.

A lead is enrolled once in a campaign and so is an address; an enrolment has one message to a step. These two rows are
why a launch repeated, a webhook fired twice or a cron restarted midway adds nobody twice.
"""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from outreach.models.campaign import Campaign, Step
from outreach.models.claim import Claim
from outreach.models.conditions import Among, Iff
from outreach.models.recipient import Recipient
from routing.models import Lead


class Enrolment(models.Model):
    """A lead in a campaign, at the address it had when the audience was frozen."""

    class EndReason(models.TextChoices):
        COMPLETED = "completed", "Got every mail"
        SUPPRESSED = "suppressed", "Wants no mail"
        BOUNCED = "bounced", "The mailbox refuses mail"
        REPLIED = "replied", "Replied"
        CONVERTED = "converted", "Converted"
        FAILED = "failed", "A mail could not be sent"
        CANCELLED = "cancelled", "Taken out"

    campaign = models.ForeignKey(Campaign, on_delete=models.PROTECT, related_name="enrolments", db_index=False)
    lead = models.ForeignKey(Lead, on_delete=models.PROTECT, related_name="enrolments")
    recipient = models.ForeignKey(Recipient, on_delete=models.PROTECT, related_name="enrolments")
    address = models.CharField(max_length=320, help_text="As the lead gave it.")
    zone = models.CharField(  # noqa: DJ001 - none is not a zone without a name
        "time zone", max_length=64, null=True, editable=False, help_text="The lead's; empty: the campaign's."
    )
    enrolled_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)
    end_reason = models.CharField(max_length=10, choices=EndReason, blank=True, default="", db_default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["campaign", "lead"], name="enrolment_once_per_campaign_and_lead"),
            models.UniqueConstraint(fields=["campaign", "recipient"], name="enrolment_once_per_campaign_and_address"),
            models.CheckConstraint(
                condition=Iff(Q(ended_at=None), Q(end_reason="")),
                name="enrolment_end_reason_iff_ended",
            ),
            models.CheckConstraint(condition=~Q(address=""), name="enrolment_has_an_address"),
            models.CheckConstraint(condition=Q(zone=None) | ~Q(zone=""), name="enrolment_zone_has_a_name"),
        ]
        indexes = [
            # finishing: is anybody of this campaign left
            models.Index(fields=["campaign"], condition=Q(ended_at=None), name="enrolment_still_active"),
        ]

    def __str__(self) -> str:
        return f"lead {self.lead_id} in campaign {self.campaign_id}"


class MessageQuerySet(models.QuerySet["Message"]):
    def due(self) -> Self:
        """Nobody holds it and its time has come, by the database's clock."""
        return self.filter(status=Message.Status.DUE, due_at__lte=Now())

    def in_doubt(self) -> Self:
        return self.filter(status=Message.Status.IN_DOUBT)


class Message(models.Model):
    """One mail of one step to one lead. Narrow on purpose: this row changes four times in a second."""

    class Status(models.TextChoices):
        """
        due -> claimed               a worker holds it under a lease; nothing has left
        claimed -> due               released, put off by the gate, or its claim expired
        claimed -> begun             the intent is committed: from now on it may have gone out
        begun -> sent                the relay took it
        begun -> due                 definitely refused for now
        begun -> failed              definitely refused for good
        begun -> in_doubt            no answer after the body left, or the worker died; never due by a machine
        in_doubt -> sent             evidence, or a person: it went
        in_doubt -> due              a person, told the risk, or a refusal that came late: it did not go
        in_doubt -> failed           a refusal for good that came late
        due, claimed -> sent         evidence that it went, though a person had said that it did not
        due, claimed -> suppressed   the address wants no mail
        due, claimed -> cancelled    the sequence was stopped, or the same content was sent by another campaign
        due, claimed -> failed       cannot be sent at all, refused too often, or three claims on it expired
        """

        DUE = "due", "Due"
        CLAIMED = "claimed", "Claimed"
        BEGUN = "begun", "Begun"
        SENT = "sent", "Sent"
        IN_DOUBT = "in_doubt", "In doubt"
        FAILED = "failed", "Failed"
        SUPPRESSED = "suppressed", "Suppressed"
        CANCELLED = "cancelled", "Cancelled"

    NOT_BEGUN = (Status.DUE, Status.CLAIMED)
    HELD = (Status.CLAIMED, Status.BEGUN)
    MAY_HAVE_GONE = (Status.BEGUN, Status.SENT, Status.IN_DOUBT)
    GIVEN_UP = (Status.FAILED, Status.SUPPRESSED, Status.CANCELLED)

    campaign = models.ForeignKey(Campaign, on_delete=models.PROTECT, related_name="messages", db_index=False)
    enrolment = models.ForeignKey(Enrolment, on_delete=models.PROTECT, related_name="messages", db_index=False)
    step = models.ForeignKey(Step, on_delete=models.PROTECT, related_name="messages", db_index=False)
    recipient = models.ForeignKey(Recipient, on_delete=models.PROTECT, related_name="messages", db_index=False)
    status = models.CharField(max_length=10, choices=Status, default=Status.DUE, db_default=Status.DUE)
    due_at = models.DateTimeField(db_default=Now())
    claim = models.ForeignKey(Claim, on_delete=models.PROTECT, null=True, related_name="messages", db_index=False)
    attempts = models.SmallIntegerField(db_default=0, help_text="Refusals for now that were charged to it.")
    expiries = models.SmallIntegerField(db_default=0, help_text="Claims on it that expired before it was begun.")
    sent_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=40, blank=True, default="", db_default="")

    objects = MessageQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["enrolment", "step"], name="message_once_per_enrolment_and_step"),
            models.CheckConstraint(
                condition=Among(
                    "status", ["due", "claimed", "begun", "sent", "in_doubt", "failed", "suppressed", "cancelled"]
                ),
                name="message_status_is_known",
            ),
            models.CheckConstraint(
                condition=Iff(Q(claim__isnull=False), Among("status", ["claimed", "begun"])),
                name="message_claim_iff_claimed_or_begun",
            ),
            models.CheckConstraint(
                condition=Iff(Q(sent_at__isnull=False), Q(status="sent")),
                name="message_sent_at_iff_sent",
            ),
            models.CheckConstraint(
                condition=Iff(~Q(reason=""), Among("status", ["failed", "suppressed", "cancelled"])),
                name="message_reason_iff_given_up",
            ),
            models.CheckConstraint(condition=Q(attempts__gte=0, expiries__gte=0), name="message_counts_never_negative"),
        ]
        indexes = [
            # claim: the due messages of one campaign, oldest first
            models.Index(fields=["campaign", "due_at", "id"], condition=Q(status="due"), name="message_due"),
            # reap, release: the messages of a claim
            models.Index(fields=["claim"], condition=Q(claim__isnull=False), name="message_of_claim"),
            # suppress: what is still to go to an address
            models.Index(fields=["recipient"], condition=Q(status__in=["due", "claimed"]), name="message_not_begun_to"),
            # the pile that waits for a person, oldest first
            models.Index(fields=["campaign", "id"], condition=Q(status="in_doubt"), name="message_in_doubt"),
        ]

    def __str__(self) -> str:
        return f"message {self.pk}, {self.status}"


class InDoubtManager(models.Manager["InDoubt"]):
    def get_queryset(self) -> models.QuerySet["InDoubt"]:
        return super().get_queryset().filter(status=Message.Status.IN_DOUBT)


class InDoubt(Message):
    """Mails of which nobody knows whether they went: messages under a name, a list and permissions of their own."""

    objects = InDoubtManager()  # type: ignore[assignment,misc]

    class Meta:
        proxy = True
        verbose_name = "mail in doubt"
        verbose_name_plural = "mails in doubt"
