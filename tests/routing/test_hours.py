"""Hours, holidays and time off become shifts, and shifts decide who takes a turn."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from django_q.models import OrmQ

from routing import hours, members
from routing.errors import UnknownCalendar
from routing.models import Assignment, Holiday, Rep, Shift, TimeOff, WorkingHours
from routing.spans import Span
from routing.sweep import ask_at_shift_starts, sweep_team
from routing.turns import take_turns
from tests.make import make_lead, make_member, make_rep, make_team

A_DAY = date(2026, 1, 2)
MONDAY = datetime(2026, 6, 1, 12, tzinfo=UTC)


def days(rep: Rep) -> list[date]:
    return [shift.during.lower.date() for shift in Shift.objects.filter(rep=rep).order_by("during")]


def plan(rep: Rep, now: datetime = MONDAY) -> bool:
    with transaction.atomic():
        return hours.plan_rep(rep_id=rep.pk, now=now)


def working_now() -> list[Span]:
    return [Span(weekday, time(), time()) for weekday in range(7)]


@pytest.mark.django_db
def test_a_rep_without_hours_works_office_hours_on_the_reps_own_clock() -> None:
    rep = make_rep(zone="Asia/Tokyo")
    assert plan(rep)
    first = Shift.objects.filter(rep=rep).order_by("during")[0].during
    assert (first.lower, first.upper) == (datetime(2026, 6, 1, 0, tzinfo=UTC), datetime(2026, 6, 1, 8, tzinfo=UTC))
    assert {day.weekday() for day in days(rep)} == {0, 1, 2, 3, 4}
    assert max(days(rep)) <= date(2026, 7, 31)


@pytest.mark.django_db
def test_planning_again_changes_nothing_and_days_that_are_over_stay() -> None:
    rep = make_rep()
    plan(rep)
    before = days(rep)
    assert not plan(rep)
    assert plan(rep, MONDAY + timedelta(days=7))
    assert days(rep)[:5] == before[:5]
    assert len(days(rep)) == len(set(days(rep)))


@pytest.mark.django_db
def test_time_off_runs_from_local_midnight_to_local_midnight_wherever_it_is_seen_from() -> None:
    rep = make_rep(zone="America/Vancouver")
    with transaction.atomic():
        hours.set_hours(rep=rep, hours=working_now())
        hours.add_time_off(rep=rep, first_day=date(2027, 1, 14), back_on=date(2027, 1, 16))
    with timezone.override("Asia/Kolkata"):
        plan(rep, datetime(2027, 1, 10, tzinfo=UTC))
    ranges = [shift.during for shift in Shift.objects.filter(rep=rep).order_by("during")]
    midnights = [during.upper.astimezone(UTC) for during in ranges]
    assert datetime(2027, 1, 14, 8, tzinfo=UTC) in midnights
    after = [during.lower for during in ranges if during.lower >= datetime(2027, 1, 14, 8, tzinfo=UTC)]
    assert after[0] == datetime(2027, 1, 16, 8, tzinfo=UTC)


@pytest.mark.django_db
def test_cancelled_time_off_gives_the_days_back() -> None:
    rep = make_rep()
    with transaction.atomic():
        hours.set_hours(rep=rep, hours=working_now())
        before = days(rep)
        off = hours.add_time_off(rep=rep, first_day=before[3], back_on=before[5])
        assert len(days(rep)) == len(before) - 2
        hours.cancel_time_off(time_off=off)
    assert days(rep) == before


@pytest.mark.django_db
def test_a_public_holiday_is_a_day_off_unless_switched_off() -> None:
    rep = make_rep(holiday_country="DE", holiday_region="BY")
    plan(rep)
    corpus_christi = date(2026, 6, 4)
    assert corpus_christi not in days(rep)
    holiday = Holiday.objects.get(country="DE", region="BY", day=corpus_christi)
    with transaction.atomic():
        hours.set_observed(holidays=[holiday], observed=False)
    plan(rep)
    assert corpus_christi in days(rep)


@pytest.mark.django_db
def test_a_stored_holiday_outlives_the_library_that_knew_it() -> None:
    Holiday.objects.create(country="DE", region="", day=date(2026, 6, 2), name="Abolished later")
    rep = make_rep(holiday_country="DE")
    plan(rep)
    assert date(2026, 6, 2) not in days(rep)
    assert not Holiday.objects.filter(day__lt=MONDAY.date()).exists()


@pytest.mark.django_db
@pytest.mark.parametrize(("country", "region"), [("ZZ", ""), ("de", ""), ("DE", "XX")])
def test_a_country_without_a_calendar_is_refused(country: str, region: str) -> None:
    with pytest.raises(UnknownCalendar), transaction.atomic():
        hours.set_calendar(rep=make_rep(), zone="Europe/Berlin", country=country, region=region)


@pytest.mark.django_db
def test_moving_to_another_zone_moves_the_shifts() -> None:
    rep = make_rep()
    with transaction.atomic():
        hours.set_hours(rep=rep, hours=working_now())
        members.set_caps(rep=rep, day_cap=1, week_cap=None, open_cap=None, zone="Pacific/Auckland")
    assert {shift.during.lower.minute for shift in Shift.objects.filter(rep=rep)} == {0}
    assert {shift.during.lower.hour for shift in Shift.objects.filter(rep=rep)} <= {11, 12}


@pytest.mark.django_db(transaction=True)
def test_leads_wait_for_hours_and_go_out_oldest_first_when_they_start() -> None:
    team = make_team(outside_hours="wait")
    rep = make_rep()
    make_member(team=team, rep=rep)
    leads = [make_lead(team=team) for _ in range(3)]
    assert take_turns(team_id=team.pk, lead_id=leads[0].pk).outcome == "waiting"
    with transaction.atomic():
        hours.set_hours(rep=rep, hours=working_now())
    assert OrmQ.objects.filter(payload__isnull=False).exists()
    assert sweep_team(team_id=team.pk).taken == 3
    assert list(Assignment.objects.order_by("turn").values_list("lead_id", flat=True)) == [lead.pk for lead in leads]


@pytest.mark.django_db(transaction=True)
def test_a_team_with_waiting_leads_is_swept_at_the_moment_a_shift_starts() -> None:
    team, idle = make_team(outside_hours="wait"), make_team(outside_hours="wait")
    start = datetime(2030, 1, 1, 9, tzinfo=UTC)
    for each in (team, idle):
        rep = make_rep()
        make_member(team=each, rep=rep)
        with transaction.atomic():
            members.set_shifts(rep=rep, ranges=[(start, start + timedelta(hours=8))])
    make_lead(team=team)
    OrmQ.objects.all().delete()
    assert ask_at_shift_starts(now=start - timedelta(minutes=5)) == 0
    assert ask_at_shift_starts(now=start - timedelta(seconds=30)) == 1
    assert OrmQ.objects.get().lock == start


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("why", ["off hours", "time off", "holiday"])
def test_the_roster_says_why_a_rep_did_not_work(why: str) -> None:
    team = make_team(reps=1, outside_hours="wait")
    present = team.memberships.get()
    absent = make_member(team=team)
    today = datetime.now(UTC).date()
    with transaction.atomic():
        hours.set_hours(rep=present.rep, hours=working_now())
        hours.set_hours(
            rep=absent.rep,
            hours=working_now() if why != "off hours" else [Span((today.weekday() + 3) % 7, time(9), time(10))],
        )
        if why == "time off":
            hours.add_time_off(rep=absent.rep, first_day=today - timedelta(days=1), back_on=today + timedelta(days=2))
        if why == "holiday":
            Holiday.objects.create(country="DE", day=today, name="Today")
            hours.set_calendar(rep=absent.rep, zone="UTC", country="DE")
    take_turns(team_id=team.pk, lead_id=make_lead(team=team).pk)
    assert Assignment.objects.get().roster.skipped == {str(absent.pk): why}


@pytest.mark.django_db(transaction=True)
def test_a_dry_run_of_the_plan_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    make_rep()
    call_command("plan_shifts", "--dry-run", "--json")
    assert '"changed": 1' in capsys.readouterr().out
    assert not Shift.objects.exists()
    call_command("plan_shifts")
    assert "the shifts of 1 changed" in capsys.readouterr().out
    assert Shift.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda rep: TimeOff(rep=rep, first_day=A_DAY, back_on=A_DAY), "time_off_ends_after_it_begins"),
        (lambda rep: WorkingHours(rep=rep, weekday=7, start=time(), end=time()), "working_hours_weekday_from_0_to_6"),
        (lambda rep: Holiday(country="de", day=A_DAY, name="x"), "holiday_country_has_two_letters"),
        (lambda rep: Rep(name="x", email="x@rota.example", holiday_country="d"), "rep_holiday_country_has_two_letters"),
    ],
)  # fmt: skip
def test_the_database_refuses(make, name: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        make(make_rep()).save()


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ["Europe/Paris", "America/Chicago", "Asia/Kolkata"])
def test_a_span_given_on_another_places_clock_holds_at_its_own_moment_for_every_rep(zone: str) -> None:
    """A calendar of Brussels says nine to ten; where the rep is, and what their clock says then, shifts nothing."""
    rep, brussels = make_rep(zone=zone), ZoneInfo("Europe/Brussels")
    nine, ten = (datetime(2026, 6, 1, hour, tzinfo=brussels) for hour in (9, 10))
    Shift.objects.create(rep=rep, during=(nine, ten))
    minute = timedelta(minutes=1)
    asked = [nine - minute, nine, ten - minute, ten]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT off_because(r, moment) IS NULL"
            "  FROM routing_rep r, unnest(%s::timestamptz[]) WITH ORDINALITY AS m(moment, n)"
            " WHERE r.id = %s ORDER BY n",
            [asked, rep.pk],
        )
        assert [there for (there,) in cursor.fetchall()] == [False, True, True, False]
