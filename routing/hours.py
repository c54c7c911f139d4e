"""Plan when reps work: weekly hours, holidays and time off become shifts, sixty days ahead.

A turn asks only whether a shift contains the moment, so whatever changes the answer plans the rep's shifts again in
the same transaction, under the turnstiles of the rep's teams. Each function that says so is a move: call inside a
transaction.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import holidays
from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.utils import timezone

from routing import spans
from routing.errors import UnknownCalendar
from routing.models import Holiday, Rep, Shift, TimeOff, WorkingHours
from routing.turnstiles import hold_turnstiles, sweep_when_committed, teams_of

AHEAD_DAYS = 60
KEPT_DAYS = 100
"""How long shifts that are over stay, for reports."""


@dataclass
class Planned:
    """Reps looked at, and those whose shifts came out differently."""

    reps: int = 0
    changed: int = 0


def set_hours(*, rep: Rep, hours: Iterable[spans.Span]) -> None:
    """Replace a rep's weekly hours. None at all means Monday to Friday, 09:00 to 17:00. Call inside a transaction."""
    hold_turnstiles(team_ids=teams_of(rep_ids=[rep.pk]))
    WorkingHours.objects.filter(rep=rep).delete()
    WorkingHours.objects.bulk_create(
        WorkingHours(rep=rep, weekday=span.weekday, start=span.start, end=span.end) for span in sorted(set(hours))
    )
    plan_rep(rep_id=rep.pk)


def set_calendar(*, rep: Rep, zone: str, country: str = "", region: str = "") -> None:
    """Set a rep's time zone, and the country and region whose holidays the rep keeps. Call inside a transaction.

    Raises UnknownCalendar for a country or region without a known calendar.
    """
    known_calendar(country=country, region=region)
    hold_turnstiles(team_ids=teams_of(rep_ids=[rep.pk]))
    Rep.objects.filter(pk=rep.pk).update(zone=zone, holiday_country=country, holiday_region=region)
    plan_rep(rep_id=rep.pk)


def add_time_off(*, rep: Rep, first_day: date, back_on: date, note: str = "") -> TimeOff:
    """Let a rep be away from one local midnight to another; it cuts shifts made by hand too, for good.

    Call inside a transaction.
    """
    hold_turnstiles(team_ids=teams_of(rep_ids=[rep.pk]))
    time_off = TimeOff.objects.create(rep=rep, first_day=first_day, back_on=back_on, note=note)
    away = spans.moment(day=first_day, zone=rep.tzinfo), spans.moment(day=back_on, zone=rep.tzinfo)
    for shift in Shift.objects.filter(rep=rep, planned=False, during__overlap=DateTimeTZRange(*away)):
        Shift.objects.filter(pk=shift.pk).delete()
        pieces = spans.minus([(shift.during.lower, shift.during.upper)], [away])
        Shift.objects.bulk_create(Shift(rep=rep, during=DateTimeTZRange(*piece)) for piece in pieces)
    plan_rep(rep_id=rep.pk)
    return time_off


def cancel_time_off(*, time_off: TimeOff) -> None:
    """Take back a rep's time off. Call inside a transaction."""
    hold_turnstiles(team_ids=teams_of(rep_ids=[time_off.rep_id]))
    TimeOff.objects.filter(pk=time_off.pk).delete()
    plan_rep(rep_id=time_off.rep_id)


def set_observed(*, holidays: Iterable[Holiday], observed: bool) -> int:
    """Keep public holidays, or work on them, in their country. Return how many changed. Call inside a transaction."""
    rows = list(holidays)
    reps: set[int] = set()
    for country, region in {(row.country, row.region) for row in rows}:
        there = Rep.objects.filter(holiday_country=country, holiday_region=region, retired_at=None)
        reps.update(there.values_list("pk", flat=True))
    hold_turnstiles(team_ids=teams_of(rep_ids=sorted(reps)))
    changed = Holiday.objects.filter(pk__in=[row.pk for row in rows]).exclude(observed=observed)
    count = changed.update(observed=observed)
    for rep_id in sorted(reps):
        plan_rep(rep_id=rep_id)
    return count


def plan_rep(*, rep_id: int, now: datetime | None = None) -> bool:
    """Plan a rep's shifts from the rep's own today; return whether any changed. Call inside a transaction.

    Days that are over stay as they were, and so do shifts made by hand. A rep without hours works office hours, unless
    there are shifts made by hand. The lock on the rep's row keeps two plans of one rep apart, also where the rep
    is in no team yet.
    """
    now = now or timezone.now()
    team_ids = teams_of(rep_ids=[rep_id])
    hold_turnstiles(team_ids=team_ids)
    rep = Rep.objects.select_for_update(no_key=True).get(pk=rep_id)
    since = spans.moment(day=now.astimezone(rep.tzinfo).date(), zone=rep.tzinfo)
    ahead = Shift.objects.filter(rep=rep, during__endswith__gt=since)
    by_hand = [(shift.during.lower, shift.during.upper) for shift in ahead.filter(planned=False)]
    planned = sorted((shift.during.lower, shift.during.upper) for shift in ahead.filter(planned=True))
    wanted = spans.minus(_wanted(rep, now, office_hours=not by_hand), by_hand)
    if planned == wanted:
        return False
    ahead.filter(planned=True).delete()
    Shift.objects.filter(rep=rep, during__endswith__lt=since - timedelta(days=KEPT_DAYS)).delete()
    Shift.objects.bulk_create(Shift(rep=rep, during=DateTimeTZRange(start, end), planned=True) for start, end in wanted)
    sweep_when_committed(team_ids=team_ids)
    return True


def plan_all(*, now: datetime | None = None, dry_run: bool = False) -> Planned:
    """Plan the shifts of every rep in service, each in a transaction of its own; `dry_run` writes nothing."""
    planned = Planned()
    for rep_id in Rep.objects.filter(retired_at=None).order_by("pk").values_list("pk", flat=True):
        with transaction.atomic(durable=True):
            planned.changed += plan_rep(rep_id=rep_id, now=now)
            planned.reps += 1
            transaction.set_rollback(dry_run)  # its nudges, made on commit, are dropped with it
    return planned


def countries() -> list[str]:
    """The countries, by their two letters, whose public holidays are known."""
    return sorted(code for code in holidays.list_supported_countries(include_aliases=False) if len(code) == 2)


def known_calendar(*, country: str, region: str) -> None:
    """Raise UnknownCalendar unless there are holidays to be had for this country (two letters, or none) and region."""
    supported = holidays.list_supported_countries(include_aliases=False)
    if (country and country not in supported) or (region and region not in supported.get(country, [])):
        raise UnknownCalendar


def _wanted(rep: Rep, now: datetime, *, office_hours: bool) -> list[spans.Range]:
    """What hours, holidays and time off come to; for a rep without hours `office_hours`, or nothing."""
    zone = rep.tzinfo
    first = now.astimezone(zone).date()
    last = first + timedelta(days=AHEAD_DAYS)
    off = set(_holidays(rep, first, last))
    for time_off in TimeOff.objects.filter(rep=rep, back_on__gt=first):
        end = min(last + spans.ONE_DAY, time_off.back_on)
        off.update(spans.days_of(start=max(first, time_off.first_day), end=end))
    entered = [spans.Span(row.weekday, row.start, row.end) for row in WorkingHours.objects.filter(rep=rep)]
    week = entered or (spans.OFFICE_HOURS if office_hours else ())
    return spans.shifts(spans=week, zone=zone, first=first, last=last, off=off)


def _holidays(rep: Rep, first: date, last: date) -> Iterable[date]:
    """The holidays a rep keeps, out of the stored rows; days the library knows and we do not are stored first.

    Days that are over are never added, and no row is ever changed: another version of the library changes no history.
    """
    if not rep.holiday_country:
        return []
    place = {"country": rep.holiday_country, "region": rep.holiday_region}
    known = holidays.country_holidays(
        rep.holiday_country, subdiv=rep.holiday_region or None, years=range(first.year, last.year + 1)
    )
    Holiday.objects.bulk_create(
        [Holiday(**place, day=day, name=name[:200]) for day, name in sorted(known.items()) if first <= day <= last],
        ignore_conflicts=True,
    )
    rows = Holiday.objects.filter(**place, observed=True, day__range=(first, last))
    return rows.values_list("day", flat=True)


def starting(*, now: datetime, within: timedelta) -> list[tuple[int, datetime]]:
    """(team, moment) for every shift of an active member that starts within that time, each once."""
    soon = Shift.objects.filter(
        during__startswith__gt=now,
        during__startswith__lte=now + within,
        rep__retired_at=None,
        rep__memberships__active=True,
        rep__memberships__team__retired_at=None,
    )
    found = soon.values_list("rep__memberships__team_id", "during")
    return sorted({(team_id, during.lower.astimezone(UTC)) for team_id, during in found})
