"""What reps are told of their assignments: one notice for each, several in a mail where several came at once.

The unique index below is the promise: an assignment is told of once, whatever senders, crashes and clocks do. The row
is written before a byte of the mail leaves, and no machine takes it back.
"""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from outreach.models.conditions import Among, Iff
from routing.models import Assignment, Rep


class NoticeMailQuerySet(models.QuerySet["NoticeMail"]):
    def due_again(self) -> Self:
        """Definitely not taken by the relay, and due once more by the database's clock."""
        return self.filter(status=NoticeMail.Status.DEFERRED, due_at__lte=Now())


class NoticeMail(models.Model):
    """One mail to one rep. `tries` counts its hand-overs; each begins with a commit that says so."""

    class Status(models.TextChoices):
        """
        begun -> sent         the relay took it
        begun -> deferred     definitely not taken, for now -> begun
        begun -> refused      definitely not taken, for good
        begun -> in_doubt     nobody knows, so it is not sent again -> as above, where the report was only late
        deferred -> dropped   every assignment in it ended meanwhile
        """

        BEGUN = "begun", "Begun"
        SENT = "sent", "Sent"
        DEFERRED = "deferred", "Refused for now"
        REFUSED = "refused", "Refused for good"
        IN_DOUBT = "in_doubt", "In doubt"
        DROPPED = "dropped", "Not sent: the leads moved on"

    OPEN = (Status.BEGUN, Status.IN_DOUBT)

    rep = models.ForeignKey(Rep, on_delete=models.PROTECT, related_name="notice_mails")
    status = models.CharField(max_length=8, choices=Status, default=Status.BEGUN, db_default=Status.BEGUN)
    tries = models.SmallIntegerField(default=1, db_default=1)
    worker = models.CharField(max_length=200)
    begun_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(null=True, help_text="When it is tried again.")
    settled_at = models.DateTimeField(null=True)
    phase = models.CharField(max_length=10, blank=True, default="", db_default="", help_text="How far SMTP came.")
    code = models.SmallIntegerField(null=True, help_text="The relay's last reply code.")
    reply = models.TextField(blank=True, default="", db_default="")

    objects = NoticeMailQuerySet.as_manager()

    class Meta:
        verbose_name = "notice"
        constraints = [
            models.CheckConstraint(
                condition=Among("status", ["begun", "sent", "deferred", "refused", "in_doubt", "dropped"]),
                name="notice_mail_status_is_known",
            ),
            models.CheckConstraint(
                condition=Iff(Q(due_at__isnull=False), Q(status="deferred")),
                name="notice_mail_due_at_iff_deferred",
            ),
            models.CheckConstraint(
                condition=Iff(Q(settled_at__isnull=False), Among("status", ["sent", "refused", "dropped"])),
                name="notice_mail_settled_at_iff_settled",
            ),
            models.CheckConstraint(condition=Q(tries__gte=1), name="notice_mail_tries_from_1"),
            models.CheckConstraint(condition=~Q(worker=""), name="notice_mail_names_its_worker"),
        ]
        indexes = [
            # the sender: what is due again; the reaper: what was begun and never settled; the admin's tabs
            models.Index(
                fields=["status", "begun_at"],
                condition=Q(status__in=["begun", "deferred", "in_doubt", "refused"]),
                name="notice_mail_unsettled",
            ),
        ]

    def __str__(self) -> str:
        return f"notice {self.pk} to {self.rep}"


class Notice(models.Model):
    """The rep of this assignment was told of it, or may have been, in this mail."""

    assignment = models.ForeignKey(Assignment, on_delete=models.PROTECT, related_name="notices", db_index=False)
    mail = models.ForeignKey(NoticeMail, on_delete=models.PROTECT, related_name="notices")

    class Meta:
        constraints = [
            # the promise: see the module's first lines
            models.UniqueConstraint(fields=["assignment"], name="notice_once_per_assignment"),
        ]

    def __str__(self) -> str:
        return f"assignment {self.assignment_id} in {self.mail}"
