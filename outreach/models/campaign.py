"""Campaigns: a series of mails to a list of leads that is frozen when the campaign is launched."""

from typing import Self
from zoneinfo import available_timezones

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from outreach.models.conditions import Among, Iff

ONE_LINE = r"^[^\x00-\x1f\x7f]*$"
one_line = RegexValidator(ONE_LINE, "This goes into a mail header: one line, without control characters.")


def validate_zone(name: str) -> None:
    """Raise ValidationError unless `name` is a time zone of the IANA database, such as Europe/Paris."""
    if name not in available_timezones():
        raise ValidationError(f"{name} is not a time zone name. Use one such as Europe/Paris or America/Chicago.")


class CampaignQuerySet(models.QuerySet["Campaign"]):
    def running(self) -> Self:
        return self.filter(status=Campaign.Status.RUNNING)


class Campaign(models.Model):
    """A series of mails and how fast, when and from whom they go out."""

    class Status(models.TextChoices):
        """
        draft -> running             launched: the audience is frozen
        draft -> scheduled           launched for later
        scheduled -> running         its time has come
        scheduled, running -> paused -> running
        scheduled, running -> finished   nobody enrolled is left, nothing is in doubt
        """

        DRAFT = "draft", "Draft"
        SCHEDULED = "scheduled", "Scheduled"
        RUNNING = "running", "Running"
        PAUSED = "paused", "Paused"
        FINISHED = "finished", "Finished"

    class WindowIn(models.TextChoices):
        CAMPAIGN = "campaign", "The campaign's time zone"
        LEAD = "lead", "The lead's time zone, where its country has one"

    LAUNCHED = (Status.SCHEDULED, Status.RUNNING, Status.PAUSED, Status.FINISHED)
    PAUSABLE = (Status.SCHEDULED, Status.RUNNING)

    name = models.CharField(max_length=200)
    status = models.CharField(max_length=9, choices=Status, default=Status.DRAFT, db_default=Status.DRAFT)
    from_name = models.CharField(max_length=200, blank=True, default="", db_default="", validators=[one_line])
    from_address = models.EmailField(max_length=254, validators=[one_line])
    from_rep = models.BooleanField(
        "from the lead's rep", default=False, db_default=False, help_text="Where the lead has one; else as above."
    )
    zone = models.CharField("time zone", max_length=64, default="UTC", db_default="UTC", validators=[validate_zone])
    window_from = models.TimeField(null=True, blank=True, help_text="Mails leave from this time of day on, ...")
    window_until = models.TimeField(null=True, blank=True, help_text="... and before this one, in the time zone.")
    window_in = models.CharField(
        "window in",
        max_length=8,
        choices=WindowIn,
        default=WindowIn.CAMPAIGN,
        db_default=WindowIn.CAMPAIGN,
        help_text="A lead whose country has several time zones, or is not known, is mailed by the campaign's.",
    )
    daily_pace = models.PositiveIntegerField(
        null=True, blank=True, help_text="Mails begun a day at most, by the time zone's date; empty: no limit."
    )
    logs_activities = models.BooleanField(
        "log its mails in the CRM",
        default=False,
        db_default=False,
        help_text="Each mail that was sent becomes a completed task of the lead there. Tasks need Rota's key field on "
        "Activity (crm_doctor looks), and take 2 KB of the org's storage each.",
    )
    starts_at = models.DateTimeField(null=True, blank=True, help_text="Launched now, begun then; empty: at once.")
    launched_at = models.DateTimeField(null=True, blank=True, editable=False)
    launched_by = models.CharField(max_length=150, blank=True, default="", db_default="", editable=False)
    audience_digest = models.CharField(max_length=64, blank=True, default="", db_default="", editable=False)
    content_digest = models.CharField(max_length=64, blank=True, default="", db_default="", editable=False)
    override_reason = models.TextField(
        blank=True, default="", db_default="", help_text="Why the same list gets the same content once more."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = CampaignQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(name=""), name="campaign_has_a_name"),
            models.CheckConstraint(
                condition=Among("status", ["draft", "scheduled", "running", "paused", "finished"]),
                name="campaign_status_is_known",
            ),
            models.CheckConstraint(
                condition=Among("window_in", ["campaign", "lead"]), name="campaign_window_in_is_known"
            ),
            models.CheckConstraint(
                condition=Iff(Q(launched_at=None), Q(status="draft")),
                name="campaign_launched_at_iff_launched",
            ),
            models.CheckConstraint(
                condition=Iff(Q(audience_digest=""), Q(status="draft")) & Iff(Q(content_digest=""), Q(status="draft")),
                name="campaign_digests_iff_launched",
            ),
            models.CheckConstraint(
                condition=Q(window_from=None, window_until=None) | Q(window_from__lt=models.F("window_until")),
                name="campaign_window_has_both_ends_in_order",
            ),
            models.CheckConstraint(
                condition=Q(from_name__regex=ONE_LINE, from_address__regex=ONE_LINE),
                name="campaign_from_is_one_line",
            ),
            models.CheckConstraint(condition=~Q(from_address=""), name="campaign_from_address_is_set"),
            # launch: two agents who load one list as two campaigns; the second needs a reason
            models.UniqueConstraint(
                fields=["audience_digest", "content_digest"],
                condition=Q(override_reason="") & ~Q(status="draft"),
                name="campaign_same_list_and_content_once",
            ),
        ]
        indexes = [
            # sender: which campaigns may send; reaper: which ones are due to start or to finish
            models.Index(
                fields=["id"], condition=Q(status__in=["scheduled", "running"]), name="campaign_running_or_scheduled"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Step(models.Model):
    """One mail of the series: when it leaves and what it says. Frozen, like the audience, when the campaign launches.

    Templates know {{ lead.first_name }} and the like, with a few filters; they can do nothing else (mail/templating).
    """

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="steps")
    order = models.PositiveSmallIntegerField(help_text="Counted from 1.")
    delay = models.DurationField(help_text="After the step before was sent; for the first, after the launch.")
    subject = models.CharField(max_length=500, validators=[one_line])
    body = models.TextField()
    digest = models.CharField(max_length=64, blank=True, default="", db_default="", editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["campaign", "order"], name="step_order_once_per_campaign"),
            models.CheckConstraint(condition=Q(order__gte=1), name="step_order_from_1"),
            models.CheckConstraint(condition=Q(subject__regex=ONE_LINE), name="step_subject_is_one_line"),
            models.CheckConstraint(condition=~Q(subject="") & ~Q(body=""), name="step_has_subject_and_body"),
        ]

    def __str__(self) -> str:
        return f"step {self.order} of {self.campaign}"


class CampaignDay(models.Model):
    """How many mails of a paced campaign were begun on a day of its time zone. The gate counts here, guarded."""

    campaign = models.ForeignKey(Campaign, on_delete=models.CASCADE, related_name="days")
    day = models.DateField()
    begun = models.IntegerField(db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["campaign", "day"], name="campaign_day_once"),
            models.CheckConstraint(condition=Q(begun__gte=0), name="campaign_day_begun_never_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.begun} of campaign {self.campaign_id} on {self.day}"
