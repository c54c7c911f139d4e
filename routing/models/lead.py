"""Leads, the addresses by which they are known, and the accounts they belong to."""

import uuid

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Now

from routing.models.team import Membership, Rep, Team, TeamPart


class Account(models.Model):
    """A company, perhaps a CRM Account."""

    name = models.CharField(max_length=200)
    owner = models.ForeignKey(Rep, on_delete=models.PROTECT, null=True, blank=True, related_name="accounts")
    crm_id = models.CharField(
        "CRM account id",
        max_length=18,
        blank=True,
        default="",
        db_default="",
        help_text="The id of its Account in the CRM, 001...; empty: its leads are written as leads there.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(name=""), name="account_has_a_name"),
            models.CheckConstraint(
                condition=Q(crm_id="") | Q(crm_id__regex=r"^001[A-Za-z0-9]{12}([A-Za-z0-9]{3})?$"),
                name="account_crm_id_is_a_salesforce_account",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class AccountDomain(models.Model):
    """An e-mail domain by which leads of an account are known."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="domains")
    domain = models.CharField(max_length=253)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["domain"], name="account_domain_once"),
            models.CheckConstraint(condition=Q(domain=Lower(F("domain"))), name="account_domain_in_lower_case"),
        ]

    def __str__(self) -> str:
        return self.domain


class LeadQuerySet(models.QuerySet["Lead"]):
    def waiting(self) -> "LeadQuerySet":
        return self.filter(status=Lead.Status.WAITING)


class Lead(models.Model):
    """Somebody who asked for something, and who is to hear from exactly one rep."""

    class Status(models.TextChoices):
        """waiting -> assigned (a turn) -> closed; waiting -> set aside (its turn failed) -> waiting (a person)."""

        WAITING = "waiting", "Waiting"
        ASSIGNED = "assigned", "Assigned"
        SET_ASIDE = "set_aside", "Set aside"
        CLOSED = "closed", "Closed"

    OPEN = (Status.WAITING, Status.ASSIGNED, Status.SET_ASIDE)

    uid = models.UUIDField("CRM key", default=uuid.uuid4, db_default=RandomUUID(), unique=True, editable=False)
    status = models.CharField(max_length=10, choices=Status, default=Status.WAITING, db_default=Status.WAITING)
    # Not indexed by themselves: teams and members are never deleted, and a turn finds leads by lead_waiting only.
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="leads", db_index=False)
    part = models.ForeignKey(
        TeamPart,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        db_index=False,
        help_text="Who may take it; empty: the whole team.",
    )
    preferred = models.ForeignKey(
        Membership,
        on_delete=models.PROTECT,
        db_index=False,
        null=True,
        blank=True,
        help_text="Takes it while available, without costing anybody a turn.",
    )
    account = models.ForeignKey(Account, on_delete=models.SET_NULL, null=True, blank=True, related_name="leads")
    email = models.CharField(max_length=320, blank=True, default="", db_default="")
    phone = models.CharField(max_length=40, blank=True, default="", db_default="")
    first_name = models.CharField(max_length=200, blank=True, default="", db_default="")
    last_name = models.CharField(max_length=200, blank=True, default="", db_default="")
    company = models.CharField(max_length=300, blank=True, default="", db_default="")
    country = models.CharField(max_length=100, blank=True, default="", db_default="")
    fields = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()), blank=True)
    why = models.JSONField(
        "why here",
        default=dict,
        db_default=models.Value({}, models.JSONField()),
        blank=True,
        help_text="How the lead came to its team: source, rule, account.",
    )
    previous = models.ForeignKey("self", on_delete=models.PROTECT, null=True, blank=True, related_name="later")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    first_assigned_at = models.DateTimeField(null=True, blank=True, editable=False)
    first_worked_at = models.DateTimeField(null=True, blank=True, editable=False)
    worked_by = models.CharField(max_length=150, blank=True, default="", db_default="", editable=False)
    closed_at = models.DateTimeField(null=True, blank=True, editable=False)
    set_aside_because = models.TextField(blank=True, default="", db_default="", editable=False)

    objects = LeadQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["waiting", "assigned", "set_aside", "closed"]), name="lead_status_is_known"
            ),
            models.CheckConstraint(
                condition=Q(status="closed", closed_at__isnull=False) | (~Q(status="closed") & Q(closed_at=None)),
                name="lead_closed_at_iff_closed",
            ),
            models.CheckConstraint(
                condition=(Q(status="set_aside") & ~Q(set_aside_because=""))
                | (~Q(status="set_aside") & Q(set_aside_because="")),
                name="lead_set_aside_because_iff_set_aside",
            ),
            models.CheckConstraint(condition=~Q(email="") | ~Q(phone=""), name="lead_has_an_email_or_a_phone"),
            models.CheckConstraint(
                condition=Q(first_worked_at=None, worked_by="") | (Q(first_worked_at__isnull=False) & ~Q(worked_by="")),
                name="lead_worked_by_iff_worked",
            ),
            models.CheckConstraint(
                condition=~Q(status="assigned") | Q(first_assigned_at__isnull=False),
                name="lead_first_assigned_at_if_assigned",
            ),
        ]
        indexes = [
            # take_turns: the oldest waiting leads of a team that a given part may take
            models.Index(fields=["team", "part", "id"], condition=Q(status="waiting"), name="lead_waiting"),
            # the admin's list by status, newest first
            models.Index(fields=["status", "-id"], name="lead_by_status"),
        ]

    def __str__(self) -> str:
        return " ".join(filter(None, (self.first_name, self.last_name))) or self.email or self.phone


class LeadAddress(models.Model):
    """An e-mail address or phone number of a lead, normalised. While the lead is open no other open lead has it."""

    class Kind(models.TextChoices):
        EMAIL = "email", "E-mail"
        PHONE = "phone", "Phone"

    lead = models.ForeignKey(Lead, on_delete=models.PROTECT, related_name="addresses")
    kind = models.CharField(max_length=5, choices=Kind)
    value = models.CharField(max_length=320)
    open = models.BooleanField(default=True, db_default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "value"], condition=Q(open=True), name="lead_address_one_open"),
            models.CheckConstraint(condition=~Q(value=""), name="lead_address_has_a_value"),
            models.CheckConstraint(condition=Q(kind__in=["email", "phone"]), name="lead_address_kind_is_known"),
        ]
        indexes = [
            # intake: the closed lead a returning address belonged to
            models.Index(fields=["kind", "value", "-id"], name="lead_address_history"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of lead {self.lead_id}"
