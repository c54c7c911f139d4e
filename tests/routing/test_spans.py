"""When reps work: the wall clock of each, whatever the world's clocks do."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import given, settings
from hypothesis import strategies as st

from routing.spans import OFFICE_HOURS, Span, moment, shifts

ZONES = sorted(zone for zone in available_timezones() if "/" in zone and not zone.startswith(("Etc/", "SystemV/")))
ODD = [
    "Africa/Cairo",
    "America/Asuncion",
    "America/Chicago",
    "America/Havana",
    "America/Sao_Paulo",
    "America/Vancouver",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kiritimati",
]
EVERY_DAY = tuple(Span(weekday, time(), time()) for weekday in range(7))


def of_day(day: date, zone: str, *spans: Span, off: tuple[date, ...] = ()) -> list[tuple[str, str]]:
    found = shifts(spans=spans, zone=ZoneInfo(zone), first=day, last=day, off=off)
    return [(f"{start:%dT%H:%M}", f"{end:%dT%H:%M}") for start, end in found]


def test_half_past_seven_in_chicago_stays_half_past_seven_when_the_clock_changes() -> None:
    tuesdays = Span(1, time(7, 30), time(15))
    assert of_day(date(2022, 11, 1), "America/Chicago", tuesdays) == [("01T12:30", "01T20:00")]
    assert of_day(date(2022, 11, 8), "America/Chicago", tuesdays) == [("08T13:30", "08T21:00")]


def test_vancouver_hours_follow_the_installed_time_zone_data() -> None:
    at_five = moment(day=date(2026, 12, 1), at=time(17), zone=ZoneInfo("America/Vancouver"))
    shown = at_five.astimezone(ZoneInfo("America/Vancouver"))
    assert (shown.date(), shown.time()) == (date(2026, 12, 1), time(17))
    assert at_five - datetime(2026, 12, 1, 17, tzinfo=UTC) in (timedelta(hours=7), timedelta(hours=8))


def test_a_week_with_a_clock_change_in_it_shifts_nothing() -> None:
    spans = [Span(weekday, time(9), time(17)) for weekday in range(7)]
    zone = ZoneInfo("America/New_York")
    for start, end in shifts(spans=spans, zone=zone, first=date(2023, 10, 29), last=date(2023, 11, 12)):
        assert (start.astimezone(zone).time(), end.astimezone(zone).time()) == (time(9), time(17))


def test_a_whole_day_has_23_or_25_hours_where_the_clock_changes() -> None:
    zone = ZoneInfo("Europe/Berlin")
    for day, hours in ((date(2026, 3, 29), 23), (date(2026, 10, 25), 25), (date(2026, 10, 26), 24)):
        ((start, end),) = shifts(spans=EVERY_DAY, zone=zone, first=day, last=day)
        assert end - start == timedelta(hours=hours)


def test_a_start_the_clock_leaps_over_is_the_moment_of_the_leap() -> None:
    assert moment(day=date(2026, 3, 29), at=time(2, 30), zone=ZoneInfo("Europe/Berlin")) == datetime(
        2026, 3, 29, 1, tzinfo=UTC
    )


def test_a_time_that_comes_twice_is_its_first_coming() -> None:
    assert moment(day=date(2026, 10, 25), at=time(2, 30), zone=ZoneInfo("Europe/Berlin")) == datetime(
        2026, 10, 25, 0, 30, tzinfo=UTC
    )


def test_a_day_whose_midnight_does_not_exist_begins_at_the_leap() -> None:
    assert of_day(date(2018, 11, 4), "America/Sao_Paulo", *EVERY_DAY) == [("04T03:00", "05T02:00")]


def test_the_day_that_samoa_left_out_has_no_hours() -> None:
    assert of_day(date(2011, 12, 30), "Pacific/Apia", *EVERY_DAY) == []
    assert of_day(date(2011, 12, 31), "Pacific/Apia", *EVERY_DAY) == [("30T10:00", "31T10:00")]


def test_both_sides_of_the_date_line_work_their_own_monday() -> None:
    monday = date(2026, 6, 1)
    assert of_day(monday, "Pacific/Kiritimati", *OFFICE_HOURS) == [("31T19:00", "01T03:00")]
    assert of_day(monday, "Pacific/Pago_Pago", *OFFICE_HOURS) == [("01T20:00", "02T04:00")]


def test_a_night_reaches_into_the_next_day_and_wraps_the_week() -> None:
    night = Span(6, time(22), time(6))  # Sunday
    assert of_day(date(2026, 6, 7), "UTC", night) == [("07T22:00", "08T00:00")]
    assert of_day(date(2026, 6, 8), "UTC", night) == [("08T00:00", "08T06:00")]


def test_a_day_off_takes_its_own_half_of_a_night_only() -> None:
    night = Span(6, time(22), time(6))
    found = shifts(
        spans=[night], zone=ZoneInfo("UTC"), first=date(2026, 6, 7), last=date(2026, 6, 8), off={date(2026, 6, 8)}
    )
    assert found == [(datetime(2026, 6, 7, 22, tzinfo=UTC), datetime(2026, 6, 8, tzinfo=UTC))]


def test_several_spans_of_a_day_stay_apart_and_overlapping_ones_become_one() -> None:
    day = date(2026, 6, 1)
    assert of_day(day, "UTC", Span(0, time(9), time(12)), Span(0, time(13), time(17))) == [
        ("01T09:00", "01T12:00"),
        ("01T13:00", "01T17:00"),
    ]
    assert of_day(day, "UTC", Span(0, time(9), time(14)), Span(0, time(13), time(17)), Span(0, time(10), time(11))) == [
        ("01T09:00", "01T17:00")
    ]


QUARTERS = st.integers(0, 95).map(lambda quarter: time(quarter // 4, quarter % 4 * 15))
SPANS = st.lists(st.builds(Span, st.integers(0, 6), QUARTERS, QUARTERS), max_size=12)
DAYS = st.dates(date(2010, 1, 1), date(2035, 1, 1))


@given(
    spans=SPANS,
    zone=st.sampled_from(ODD) | st.sampled_from(ZONES),
    first=DAYS,
    away=st.sets(st.integers(0, 4), max_size=2),
)
@settings(max_examples=50, deadline=None)
def test_shifts_never_overlap_and_cover_exactly_the_hours_on_the_wall(
    spans: list[Span], zone: str, first: date, away: set[int]
) -> None:
    last, clock = first + timedelta(days=4), ZoneInfo(zone)
    off = {first + timedelta(days=number) for number in away}
    found = shifts(spans=spans, zone=clock, first=first, last=last, off=off)
    assert all(start < end for start, end in found)
    assert all(earlier[1] <= later[0] for earlier, later in zip(found, found[1:], strict=False))
    # The oracle walks the world's clock by quarters of an hour and reads the wall clock, which never goes back.
    wall = datetime.min
    now = datetime.combine(first, time(), UTC) - timedelta(days=2)
    while now < datetime.combine(last, time(), UTC) + timedelta(days=3):
        wall = max(wall, now.astimezone(clock).replace(tzinfo=None))
        covered = any(start <= now < end for start, end in found)
        assert covered == (first <= wall.date() <= last and wall.date() not in off and works(spans, wall)), (now, wall)
        now += timedelta(minutes=15)


def works(spans: list[Span], wall: datetime) -> bool:
    weekday, at = wall.weekday(), wall.time()
    for span in spans:
        if span.start < span.end:
            if span.weekday == weekday and span.start <= at < span.end:
                return True
        elif (span.weekday == weekday and at >= span.start) or ((span.weekday + 1) % 7 == weekday and at < span.end):
            return True
    return False
