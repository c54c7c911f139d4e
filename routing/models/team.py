"""Teams, the reps in them, when they work and how many leads they may hold.

Teams, reps and memberships are retired, never deleted: an assignment made years ago still names them. Whatever a turn
reads of them is written by routing.members only, which takes the turnstiles of the teams concerned first.
"""

from zoneinfo import ZoneInfo, available_timezones

from django.contrib.postgres.fields import ArrayField, DateTimeRangeField
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Now, Upper

SCALE = 10**12
"""One lead in units of lag: exact integers, so that lags always add up."""

ROUNDING = 10**6
"""A lag up to this many units is rounding, not a lead owed: shares are floored, by less than one unit a turn."""


def validate_zone(name: str) -> None:
    """Raise ValidationError unless `name` is a time zone of the IANA database, such as Europe/Paris."""
    if name not in available_timezones():
        raise ValidationError(f"{name} is not a time zone name. Use one such as Europe/Paris or America/Chicago.")


class Team(models.Model):
    """Reps who take the leads of one kind in turn."""

    class OutsideHours(models.TextChoices):
        """What happens to a lead while nobody of the team is inside a shift."""

        WAIT = "wait", "Wait until somebody works"
        IGNORE = "ignore", "Ignore hours: every member may take leads at any time"

    class WhenLate(models.TextChoices):
        """What happens to a lead that its rep has not worked in time."""

        ALERT = "alert", "Show it under Late leads"
        REASSIGN = "reassign", "Give it to the next in turn among the others"

    name = models.CharField(max_length=100)
    outside_hours = models.CharField(
        max_length=10, choices=OutsideHours, default=OutsideHours.WAIT, db_default=OutsideHours.WAIT
    )
    direct_counts = models.BooleanField(
        "direct leads count",
        default=False,
        db_default=False,
        help_text="Leads given past the turns (to an account's owner, the rep of before, a named rep, or by hand) are "
        "part of a rep's share: the others get as many more. Off: they are on top of it.",
    )
    zone = models.CharField(
        "time zone",
        max_length=64,
        default="UTC",
        db_default="UTC",
        validators=[validate_zone],
        help_text="Days in the team's reports are days on this clock; each rep's hours and caps go by the rep's own.",
    )
    notices = models.BooleanField(
        "notices by mail",
        default=True,
        db_default=True,
        help_text="Members are told of each lead they get, where a relay and NOTICE_FROM are set.",
    )
    service_minutes = models.PositiveIntegerField(
        "work within",
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(10_080)],
        help_text="Working minutes (by the rep's shifts; all minutes where the team ignores hours) in which a rep "
        "has to work a new lead; empty: no such level.",
    )
    when_late = models.CharField(
        max_length=8, choices=WhenLate, default=WhenLate.ALERT, db_default=WhenLate.ALERT, help_text="If not worked."
    )
    late_moves = models.PositiveSmallIntegerField(
        "moves at most",
        default=2,
        db_default=2,
        validators=[MaxValueValidator(10)],
        help_text="How often one lead goes to the next rep by itself.",
    )
    service_since = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Leads given before are not measured."
    )
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(service_minutes=None, service_since=None)
                | Q(service_minutes__isnull=False, service_minutes__range=(1, 10_080), service_since__isnull=False),
                name="team_service_minutes_and_since_or_neither",
            ),
            models.CheckConstraint(
                condition=Q(when_late__in=["alert", "reassign"]), name="team_when_late_is_alert_or_reassign"
            ),
            models.CheckConstraint(condition=Q(late_moves__lte=10), name="team_late_moves_ten_at_most"),
            models.UniqueConstraint(Lower("name"), name="team_name_once"),
            models.CheckConstraint(condition=~Q(name=""), name="team_has_a_name"),
            models.CheckConstraint(
                condition=Q(outside_hours__in=["wait", "ignore"]), name="team_outside_hours_is_wait_or_ignore"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def tzinfo(self) -> ZoneInfo:
        """The zone as the clock of the team's reports."""
        return ZoneInfo(self.zone)


class Turnstile(models.Model):
    """The number of a team's latest turn. The turnstile itself is an advisory lock; this row is never waited on."""

    team = models.OneToOneField(Team, on_delete=models.PROTECT, primary_key=True)
    turn = models.BigIntegerField(db_default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(turn__gte=0), name="turnstile_turn_never_negative")]

    def __str__(self) -> str:
        return f"turn {self.turn}"


class Rep(models.Model):
    """A person who takes leads. Caps hold over all teams together, by the rep's own local date."""

    name = models.CharField(max_length=200)
    email = models.EmailField(max_length=254)
    zone = models.CharField("time zone", max_length=64, default="UTC", db_default="UTC", validators=[validate_zone])
    crm_user_id = models.CharField(
        "CRM user id", max_length=18, blank=True, default="", db_default="", help_text="Salesforce user id, 005..."
    )
    holiday_country = models.CharField(
        max_length=2, blank=True, default="", db_default="", help_text="Two letters, such as DE; empty: no holidays."
    )
    holiday_region = models.CharField(
        max_length=10, blank=True, default="", db_default="", help_text="Part of the country, such as BY; may be empty."
    )
    notices = models.BooleanField(
        "notices by mail", default=True, db_default=True, help_text="Told by mail of each lead they get."
    )
    day_cap = models.PositiveIntegerField(null=True, blank=True, help_text="Leads a day at most; empty: no limit.")
    week_cap = models.PositiveIntegerField(
        null=True, blank=True, help_text="Leads a week (Monday to Sunday) at most; empty: no limit."
    )
    open_cap = models.PositiveIntegerField(
        "open leads cap", null=True, blank=True, help_text="Open leads at the same time at most; empty: no limit."
    )
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(Lower("email"), name="rep_email_once"),
            models.CheckConstraint(condition=~Q(name=""), name="rep_has_a_name"),
            models.CheckConstraint(
                condition=Q(crm_user_id="") | Q(crm_user_id__regex=r"^005[A-Za-z0-9]{12}([A-Za-z0-9]{3})?$"),
                name="rep_crm_user_id_is_a_salesforce_user",
            ),
            models.CheckConstraint(
                condition=Q(holiday_country="") | Q(holiday_country__regex=r"^[A-Z]{2}$"),
                name="rep_holiday_country_has_two_letters",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def tzinfo(self) -> ZoneInfo:
        """The zone as the clock of this rep's days."""
        return ZoneInfo(self.zone)


class Membership(models.Model):
    """A rep's place in a team: the weight of their share, and how far they are from it.

    `lag` is leads due minus leads received, in units of SCALE. It moves at every turn and freezes in absence.
    """

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="memberships")
    rep = models.ForeignKey(Rep, on_delete=models.PROTECT, related_name="memberships")
    weight = models.PositiveSmallIntegerField(
        default=1, db_default=1, validators=[MinValueValidator(1), MaxValueValidator(100)], help_text="From 1 to 100."
    )
    active = models.BooleanField(default=True, db_default=True)
    lag = models.BigIntegerField(db_default=0, editable=False)
    last_turn = models.BigIntegerField(db_default=0, editable=False)
    joined_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "rep"], name="membership_once_per_team_and_rep"),
            models.CheckConstraint(condition=Q(weight__range=(1, 100)), name="membership_weight_from_1_to_100"),
        ]

    def __str__(self) -> str:
        return f"{self.rep} in {self.team}"


class TeamPart(models.Model):
    """An immutable set of a team's memberships: those who may take a certain lead. No part means the whole team.

    Waiting leads are found by part, so that a long row of leads for somebody absent is never read by those present.
    """

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="parts")
    members = ArrayField(models.BigIntegerField(), help_text="Membership ids, ascending.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "members"], name="team_part_once"),
            models.CheckConstraint(condition=Q(members__len__gte=1), name="team_part_has_a_member"),
        ]

    def __str__(self) -> str:
        return f"{len(self.members)} of {self.team}"


class Shift(models.Model):
    """A time range in which a rep works. They never overlap: a turn asks whether the one that ends next has begun."""

    rep = models.ForeignKey(Rep, on_delete=models.PROTECT, related_name="shifts", db_index=False)
    during = DateTimeRangeField(help_text="From (included) to (not included).")
    planned = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Out of working hours, and planned again with them; else made by hand.",
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(during__isempty=False), name="shift_during_is_not_empty"),
            models.CheckConstraint(
                condition=Q(during__lower_inf=False, during__upper_inf=False), name="shift_during_begins_and_ends"
            ),
        ]
        indexes = [
            # take_turns: the shift of a rep that ends next
            models.Index("rep", Upper("during"), name="shift_by_end"),
        ]

    def __str__(self) -> str:
        return f"{self.rep}: {self.during}"


class RepCount(models.Model):
    """How many leads a capped rep has had in a period; kept for reps with a cap of that kind only.

    `since` is the rep's local date: the day itself, the Monday of the week, or 0001-01-01 for open leads.
    """

    class Kind(models.TextChoices):
        DAY = "day", "Leads of a day"
        WEEK = "week", "Leads of a week"
        OPEN = "open", "Open leads"

    rep = models.ForeignKey(Rep, on_delete=models.PROTECT, related_name="counts")
    kind = models.CharField(max_length=4, choices=Kind)
    since = models.DateField()
    count = models.IntegerField(db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(F("rep"), F("kind"), F("since"), name="rep_count_once_per_period"),
            models.CheckConstraint(condition=Q(count__gte=0), name="rep_count_never_negative"),
            models.CheckConstraint(condition=Q(kind__in=["day", "week", "open"]), name="rep_count_kind_is_known"),
        ]

    def __str__(self) -> str:
        return f"{self.rep} {self.kind} {self.since}: {self.count}"
