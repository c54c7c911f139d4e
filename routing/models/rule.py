"""Routing rules: books of ordered rules, of which one is published and at most one is a draft.

A published book never changes, the database sees to that; to change a rule is to publish another book. So a lead that
names rule and version can be explained for ever, and no process can hold stale rules under a version's number.
"""

from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from routing.conditions import OPERATORS
from routing.models.team import Membership, Rep, Team, TeamPart

DOMAIN = RegexValidator(r"^[a-z0-9-]+(\.[a-z0-9-]+)+$", "Write a domain in lower case, such as acme.example.")


class RuleBook(models.Model):
    """All routing rules in their order. A lead that none of them takes goes to the team of its source."""

    class Status(models.TextChoices):
        """draft -> published -> superseded by the next one."""

        DRAFT = "draft", "Draft"
        PUBLISHED = "published", "Published"
        SUPERSEDED = "superseded", "Superseded"

    status = models.CharField(max_length=10, choices=Status, default=Status.DRAFT, db_default=Status.DRAFT)
    version = models.PositiveIntegerField(null=True, editable=False)
    note = models.CharField(max_length=300, blank=True, default="", db_default="", help_text="What is new in it.")
    free_mail = ArrayField(
        models.CharField(max_length=253, validators=[DOMAIN]),
        default=list,
        blank=True,
        help_text="Free-mail domains besides the well-known ones.",
    )
    company_mail = ArrayField(
        models.CharField(max_length=253, validators=[DOMAIN]),
        default=list,
        blank=True,
        help_text="Domains that are a company's, though they are among the well-known free-mail domains.",
    )
    regions = models.JSONField(
        default=dict, blank=True, help_text='Regions of your own by country codes: {"Home": ["DE", "AT"]}.'
    )
    published_at = models.DateTimeField(null=True, editable=False)
    published_by = models.CharField(max_length=150, blank=True, default="", db_default="", editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["status"], condition=Q(status="published"), name="rule_book_one_published"),
            models.UniqueConstraint(fields=["status"], condition=Q(status="draft"), name="rule_book_one_draft"),
            models.UniqueConstraint(fields=["version"], name="rule_book_version_once"),
            models.CheckConstraint(
                condition=Q(status="draft", version=None, published_at=None)
                | (
                    ~Q(status="draft")
                    & Q(version__isnull=False, version__gte=1, published_at__isnull=False)
                    & ~Q(published_by="")
                ),
                name="rule_book_version_unless_draft",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["draft", "published", "superseded"]), name="rule_book_status_is_known"
            ),
        ]

    def __str__(self) -> str:
        return f"version {self.version}" if self.version else "draft"


class Rule(models.Model):
    """If its conditions hold and no earlier rule took the lead, the lead goes where it says."""

    class Match(models.TextChoices):
        ALL = "all", "All of its conditions"
        ANY = "any", "Any of its conditions"

    book = models.ForeignKey(RuleBook, on_delete=models.CASCADE, related_name="rules")
    position = models.PositiveIntegerField(help_text="Rules are tried in this order.")
    name = models.CharField(max_length=100)
    match = models.CharField(max_length=3, choices=Match, default=Match.ALL, db_default=Match.ALL)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="rules")
    members = models.ManyToManyField(
        Membership, blank=True, related_name="rules", help_text="Only these of the team, for a skill; empty: all of it."
    )
    part = models.ForeignKey(TeamPart, on_delete=models.PROTECT, null=True, blank=True, editable=False)
    rep = models.ForeignKey(
        Rep,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="rules",
        help_text="Takes the lead while available, in a team of theirs; else the team above does.",
    )
    owners_first = models.BooleanField(
        default=True,
        db_default=True,
        help_text="The rep who had the lead before, or who owns its account, comes before the target of this rule.",
    )

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(
                fields=["book", "position"], name="rule_position_once", deferrable=models.Deferrable.DEFERRED
            ),
            models.CheckConstraint(condition=~Q(name=""), name="rule_has_a_name"),
            models.CheckConstraint(condition=Q(match__in=["all", "any"]), name="rule_match_is_all_or_any"),
        ]

    def __str__(self) -> str:
        return f"{self.position} {self.name}"


class RuleCondition(models.Model):
    """Field, operator, value. A set has one entry a line, or commas between entries."""

    rule = models.ForeignKey(Rule, on_delete=models.CASCADE, related_name="conditions")
    field = models.CharField(
        max_length=100,
        help_text="email, domain, phone, phone_country, first_name, last_name, company, country, source; "
        "whatever else a sender says is fields.<name>.",
    )
    operator = models.CharField(max_length=15, choices=list(OPERATORS.items()))
    value = models.TextField(blank=True, default="", db_default="")

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.field} {self.get_operator_display()} {self.value}"
