"""When reps work: weekly hours, public holidays and time off, out of which their shifts are planned.

Written by routing.hours only, which plans the shifts again in the same transaction.
"""

from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import F, Q

from routing.models.team import Rep


class WorkingHours(models.Model):
    """One span of a rep's week, on the rep's own clock. Several a day are welcome."""

    class Weekday(models.IntegerChoices):
        MONDAY = 0, "Monday"
        TUESDAY = 1, "Tuesday"
        WEDNESDAY = 2, "Wednesday"
        THURSDAY = 3, "Thursday"
        FRIDAY = 4, "Friday"
        SATURDAY = 5, "Saturday"
        SUNDAY = 6, "Sunday"

    rep = models.ForeignKey(Rep, on_delete=models.PROTECT, related_name="hours")
    weekday = models.PositiveSmallIntegerField(choices=Weekday, validators=[MaxValueValidator(6)])
    start = models.TimeField()
    end = models.TimeField(
        help_text="At or before the start: on the next day. 00:00 to 00:00 is the whole day. "
        "A rep without any hours works Monday to Friday from 09:00 to 17:00, on the rep's own clock."
    )

    class Meta:
        verbose_name_plural = "working hours"
        ordering = ["weekday", "start"]
        constraints = [
            models.CheckConstraint(condition=Q(weekday__range=(0, 6)), name="working_hours_weekday_from_0_to_6"),
            models.UniqueConstraint(fields=["rep", "weekday", "start"], name="working_hours_start_once"),
        ]

    def __str__(self) -> str:
        return f"{self.Weekday(self.weekday).label} {self.start:%H:%M} to {self.end:%H:%M}"


class Holiday(models.Model):
    """A public holiday as Rota knew it when it was stored. A later version of the calendar changes no row."""

    country = models.CharField(max_length=2)
    region = models.CharField(max_length=10, blank=True, default="", db_default="")
    day = models.DateField()
    name = models.CharField(max_length=200)
    observed = models.BooleanField(default=True, db_default=True, help_text="Off: work as on any other day.")

    class Meta:
        ordering = ["day"]
        constraints = [
            models.UniqueConstraint(fields=["country", "region", "day"], name="holiday_once_a_day"),
            models.CheckConstraint(condition=Q(country__regex=r"^[A-Z]{2}$"), name="holiday_country_has_two_letters"),
        ]

    def __str__(self) -> str:
        return f"{self.name}, {self.day}"


class TimeOff(models.Model):
    """Days on which a rep takes no leads: from the first local midnight to the last, wherever it is looked at from."""

    rep = models.ForeignKey(Rep, on_delete=models.PROTECT, related_name="time_off")
    first_day = models.DateField("first day off")
    back_on = models.DateField(help_text="The first day at work again.")
    note = models.CharField(max_length=200, blank=True, default="", db_default="")

    class Meta:
        verbose_name_plural = "time off"
        ordering = ["first_day"]
        constraints = [
            models.CheckConstraint(condition=Q(back_on__gt=F("first_day")), name="time_off_ends_after_it_begins"),
        ]
        indexes = [
            # take_turns: is a rep outside all shifts because of time off
            models.Index(fields=["rep", "back_on"], name="time_off_of_rep"),
        ]

    def __str__(self) -> str:
        return f"{self.rep} off from {self.first_day}, back on {self.back_on}"
