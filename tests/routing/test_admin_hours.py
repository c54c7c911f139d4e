"""When reps work, by form: weekly hours, holidays, time off and shifts by hand; each change plans shifts again."""

from datetime import UTC, date, datetime, timedelta

import pytest
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from routing import hours, members
from routing.models import Holiday, Rep, Shift, TimeOff, WorkingHours
from tests.make import make_rep
from tests.staff import ask, confirm, hands_on, listed, logged_in, nothing, page_of, said

pytestmark = pytest.mark.django_db
MONDAY = date.today() + timedelta(days=7 - date.today().weekday())


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def save(staff: Client, rep: Rep, **rows: list[dict[str, object]]) -> str:
    """Save the page of a rep with these rows of hours and time off; the page that comes of it."""
    given = {"name": rep.name, "email": rep.email, "zone": rep.zone, "holiday_country": rep.holiday_country}
    given |= {"holiday_region": rep.holiday_region, **nothing("hours", "time_off")}
    for name, forms in rows.items():
        given |= {f"{name}-TOTAL_FORMS": len(forms), f"{name}-INITIAL_FORMS": sum("id" in form for form in forms)}
        for number, form in enumerate(forms):
            given |= {f"{name}-{number}-rep": rep.pk} | {f"{name}-{number}-{key}": form[key] for key in form}
    return hands_on(staff, page_of("routing_rep", rep.pk), given).content.decode()


def starts(rep: Rep, day: date) -> list[int]:
    """The hours in UTC at which shifts of a rep start on a day."""
    return [shift.during.lower.hour for shift in rep.shifts.order_by("during") if shift.during.lower.date() == day]


def test_weekly_hours_become_shifts_and_are_replaced_by_what_the_form_says(staff):
    rep = make_rep()
    save(staff, rep, hours=[{"weekday": 0, "start": "08:00", "end": "12:00"}])
    assert (starts(rep, MONDAY), starts(rep, MONDAY + timedelta(days=1))) == ([8], [])
    first = WorkingHours.objects.get()

    kept = {"id": first.pk, "weekday": 0, "start": "10:00", "end": "12:00"}
    save(staff, rep, hours=[kept, {"weekday": 0, "start": "13:00", "end": "15:00"}])
    assert starts(rep, MONDAY) == [10, 13]

    rows = [{"id": row.pk, "weekday": 0, "start": row.start, "end": row.end} for row in WorkingHours.objects.all()]
    save(staff, rep, hours=[{**row, "DELETE": "on"} for row in rows])
    assert starts(rep, MONDAY) == [9], "without hours: office hours"


def test_time_off_cuts_shifts_and_gives_them_back_when_it_is_changed_or_taken_back(staff):
    rep = make_rep()
    with transaction.atomic():
        hours.plan_rep(rep_id=rep.pk)
    away = {"first_day": MONDAY, "back_on": MONDAY + timedelta(days=2), "note": "ill"}
    save(staff, rep, time_off=[away])
    assert starts(rep, MONDAY) == [] == starts(rep, MONDAY + timedelta(days=1))

    shorter = {**away, "id": TimeOff.objects.get().pk, "back_on": MONDAY + timedelta(days=1)}
    save(staff, rep, time_off=[shorter])
    assert (starts(rep, MONDAY), starts(rep, MONDAY + timedelta(days=1))) == ([], [9])

    save(staff, rep, time_off=[{**shorter, "id": TimeOff.objects.get().pk, "DELETE": "on"}])
    assert starts(rep, MONDAY) == [9] and not TimeOff.objects.exists()


def test_a_page_saved_unchanged_plans_nothing(staff):
    rep = make_rep()
    save(staff, rep)
    assert not Shift.objects.exists()


def test_a_country_brings_its_holidays_and_one_of_them_can_be_worked_on(staff):
    rep = make_rep()
    rep.holiday_country, rep.holiday_region = "DE", "XX"
    answer = staff.post(page_of("routing_rep", rep.pk), {"holiday_country": "DE", "holiday_region": "XX"})
    assert "No public holidays are known for this country or region" in answer.content.decode()
    rep.holiday_country, rep.holiday_region = "DE", ""
    save(staff, rep)
    assert Rep.objects.get().holiday_country == "DE"
    holiday = Holiday.objects.create(country="DE", day=MONDAY, name="Founders' Day")
    with transaction.atomic():
        hours.plan_rep(rep_id=rep.pk)
    assert starts(rep, MONDAY) == []
    assert "Germany" in staff.get(listed("routing_holiday")).content.decode()

    answer = confirm(staff, "routing_holiday", "work_on_them", holiday.pk)

    assert said(answer) == ["Changed 1."]
    assert starts(rep, MONDAY) == [9]


def test_a_shift_by_hand_is_one_exception_and_a_night_is_one_too(staff):
    rep = make_rep(zone="Europe/Paris")
    given = {"rep": rep.pk, "day": "2026-03-27", "begins": "22:00", "ends": "06:00"}

    answer = hands_on(staff, reverse("admin:routing_shift_add"), given)

    ranges = [(shift.during.lower, shift.during.upper) for shift in Shift.objects.order_by("during")]
    assert ranges[0][0] == datetime(2026, 3, 27, 21, tzinfo=UTC)
    assert ranges[-1][1] == datetime(2026, 3, 28, 5, tzinfo=UTC)
    assert said(answer)[0].startswith("Added 2 shifts")


def test_a_planned_shift_is_not_removed_and_the_page_says_that_time_off_is_the_way(staff):
    rep, now = make_rep(), timezone.now()
    with transaction.atomic():
        members.set_shifts(rep=rep, ranges=[(now, now + timedelta(hours=1))])
    by_hand = Shift.objects.get()
    planned = Shift.objects.create(rep=rep, during=(now + timedelta(hours=2), now + timedelta(hours=3)), planned=True)

    page = ask(staff, "routing_shift", "remove_selected", by_hand.pk, planned.pk).content.decode()
    answer = confirm(staff, "routing_shift", "remove_selected", by_hand.pk, planned.pk)

    assert "enter time off" in page and "Remove 1" in page
    assert said(answer)[0].startswith("Removed 1. Skipped 1")
    assert Shift.objects.get() == planned


def test_who_may_only_look_sees_hours_and_changes_none(staff):
    rep = make_rep()
    looker = logged_in("lee", may=("view_rep",))
    assert looker.get(page_of("routing_rep", rep.pk)).status_code == 200
    assert looker.post(page_of("routing_rep", rep.pk), nothing("hours", "time_off")).status_code == 403
