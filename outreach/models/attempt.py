"""Every try to hand a mail to the relay: first the intent, then what came of it. The ledger.

The intent is committed before a byte of the mail leaves. One partial unique index below is the whole promise: while a
try may have gone out there cannot be a second one for the same step and address, whatever workers, leases, clocks,
queues and people do.
"""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from outreach.models.campaign import Step
from outreach.models.claim import Claim
from outreach.models.conditions import Among, Iff
from outreach.models.message import Message
from outreach.models.recipient import Recipient


class SendAttemptQuerySet(models.QuerySet["SendAttempt"]):
    def live(self) -> Self:
        """It went out, or may have."""
        return self.filter(status__in=SendAttempt.LIVE)


class SendAttempt(models.Model):
    """One try. `mail_id`, the Message-ID, is the same for every try of a step and address: copies can be found."""

    class Status(models.TextChoices):
        """
        begun -> accepted            the relay answered 250 after the body
        begun -> deferred            definitely not taken, for now
        begun -> refused             definitely not taken, for good
        begun -> in_doubt            no answer after the end of the body, or nobody left to hear it
        in_doubt -> accepted         late evidence, or a person: it went
        in_doubt -> deferred         late evidence: it was not taken, for now
        in_doubt -> refused          late evidence: it was not taken, for good
        in_doubt -> disproved        a person, told the risk: it did not go, send again
        disproved -> accepted        evidence, before its message began again: it went, whatever the person said
        """

        BEGUN = "begun", "Begun"
        ACCEPTED = "accepted", "Accepted"
        DEFERRED = "deferred", "Refused for now"
        REFUSED = "refused", "Refused for good"
        IN_DOUBT = "in_doubt", "In doubt"
        DISPROVED = "disproved", "A person said it did not go"

    LIVE = (Status.BEGUN, Status.ACCEPTED, Status.IN_DOUBT)
    UNSETTLED = (Status.BEGUN, Status.IN_DOUBT)
    SETTLED = (Status.ACCEPTED, Status.DEFERRED, Status.REFUSED, Status.DISPROVED)

    message = models.ForeignKey(Message, on_delete=models.PROTECT, related_name="tries", db_index=False)
    # The message's own step, read by the gate under the message's lock. To have the server look again would share-lock
    # one row for all senders of a campaign at once.
    step = models.ForeignKey(Step, on_delete=models.PROTECT, related_name="tries", db_index=False, db_constraint=False)
    recipient = models.ForeignKey(Recipient, on_delete=models.PROTECT, related_name="tries")
    claim = models.ForeignKey(Claim, on_delete=models.PROTECT, related_name="tries", db_index=False)
    number = models.SmallIntegerField(help_text="Counted from 1 for each message.")
    worker = models.CharField(max_length=200)
    mail_id = models.CharField("Message-ID", max_length=320)
    digest = models.CharField(max_length=64, help_text="SHA-256 of the mail as it was handed over.")
    subject = models.CharField(
        max_length=500, blank=True, default="", db_default="", help_text="Kept where the CRM is told of the mail."
    )
    activity_owed = models.BooleanField(
        default=False, db_default=False, help_text="The CRM is to be told of it once the lead has a rep."
    )
    status = models.CharField(max_length=9, choices=Status, default=Status.BEGUN, db_default=Status.BEGUN)
    begun_at = models.DateTimeField(db_default=Now())
    settled_at = models.DateTimeField(null=True)
    phase = models.CharField(max_length=10, blank=True, default="", db_default="", help_text="How far SMTP came.")
    code = models.SmallIntegerField(null=True, help_text="The relay's last reply code.")
    reply = models.TextField(blank=True, default="", db_default="")
    resolved_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    resolve_reason = models.TextField(blank=True, default="", db_default="")

    objects = SendAttemptQuerySet.as_manager()

    class Meta:
        constraints = [
            # the promise of this app: see the module's first lines
            models.UniqueConstraint(
                fields=["step", "recipient"],
                condition=Q(status__in=["begun", "accepted", "in_doubt"]),
                name="send_attempt_one_live",
            ),
            models.UniqueConstraint(fields=["message", "number"], name="send_attempt_number_once_per_message"),
            models.CheckConstraint(
                condition=Among("status", ["begun", "accepted", "deferred", "refused", "in_doubt", "disproved"]),
                name="send_attempt_status_is_known",
            ),
            models.CheckConstraint(
                condition=Iff(Q(settled_at=None), Among("status", ["begun", "in_doubt"])),
                name="send_attempt_settled_at_iff_settled",
            ),
            models.CheckConstraint(
                condition=~Q(status="disproved") | (~Q(resolved_by="") & ~Q(resolve_reason="")),
                name="send_attempt_disproved_says_who_and_why",
            ),
            models.CheckConstraint(condition=Q(number__gte=1), name="send_attempt_number_from_1"),
            models.CheckConstraint(
                condition=Q(activity_owed=False) | Q(status="accepted"),
                name="send_attempt_owes_task_if_accepted",
            ),
        ]
        indexes = [
            # reap: intents of a claim whose outcome nobody reported
            models.Index(fields=["claim"], condition=Q(status="begun"), name="send_attempt_begun_of_claim"),
            # what the CRM is still to be told, once its lead has a rep
            models.Index(fields=["id"], condition=Q(activity_owed=True), name="send_attempt_activity_owed"),
            # bounces and evidence are matched by Message-ID
            models.Index(fields=["mail_id"], name="send_attempt_by_mail_id"),
        ]

    def __str__(self) -> str:
        return f"try {self.number} of message {self.message_id}, {self.status}"
