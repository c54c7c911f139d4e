"""A lead is worked in time, or shown, or given to the next: by working minutes, never against a person's word."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction
from django.utils import timezone

from crmsync.models import OutboxMessage
from routing import hours, leads, members, service_levels, spans
from routing.models import Assignment, Lead, Membership, Rep, ServiceBreach, Team
from routing.reassign import assign_by_hand
from routing.service_levels import keep, late_now, set_level
from routing.turns import take_turns
from tests.make import make_lead, make_member, make_rep, make_team
from tests.races.replay import nothing_lost_nothing_twice
from tests.routing.test_credits import lags, replayed

pytestmark = pytest.mark.django_db(transaction=True)

START = datetime(2026, 10, 23, tzinfo=UTC)  # a Friday; on Sunday the clocks of Paris go back
AGO = timedelta(minutes=31)


def level(team: Team, *, minutes: int | None = 30, when_late: str = "reassign", moves: int = 2) -> Team:
    with transaction.atomic():
        set_level(team=team, minutes=minutes, when_late=when_late, moves=moves)
    Team.objects.filter(pk=team.pk, service_minutes__isnull=False).update(service_since=START - timedelta(days=9))
    return team


def given(team: Team, *, ago: timedelta = AGO, count: int = 1) -> list[Assignment]:
    """Leads of this team, given to somebody so long ago."""
    made = [make_lead(team=team) for _ in range(count)]
    take_turns(team_id=team.pk, most=1_000)
    rows = Assignment.objects.current().filter(lead__in=made)
    rows.update(assigned_at=timezone.now() - ago)
    return list(rows.order_by("pk"))


def worked(assignment: Assignment) -> int:
    return leads.mark_worked(lead_ids=[assignment.lead_id], by="Kim")


def test_a_lead_not_worked_in_time_goes_to_the_next_and_its_history_says_so() -> None:
    team = level(make_team(reps=3))
    (turn,) = given(team)
    first_date = turn.lead.first_assigned_at
    done = keep()
    assert (done.late, done.moved, done.failed) == (1, 1, 0)
    turn.refresh_from_db()
    now = Assignment.objects.current().get()
    assert (turn.end_reason, turn.ended_by) == ("late", "service level")
    assert turn.end_note == "not worked within 30 working minutes"
    assert now.membership_id != turn.membership_id and now.chosen_by == ""
    assert Lead.objects.get().first_assigned_at == first_date
    assert ServiceBreach.objects.get().outcome == "moved"
    assert lags(team) == replayed(team), "an ordinary turn, and nobody gets the lost one back"
    assert OutboxMessage.objects.exists()
    nothing_lost_nothing_twice()


def test_late_leads_of_one_rep_go_to_the_others_in_fair_turn() -> None:
    team = level(make_team(reps=1))
    given(team, count=6)
    others = [make_member(team=team) for _ in range(3)]
    assert keep().moved == 6
    counts = [Assignment.objects.current().filter(membership=other).count() for other in others]
    assert counts == [2, 2, 2]


def test_a_worked_lead_a_closed_one_and_one_still_in_time_are_left_alone() -> None:
    team = level(make_team(reps=2))
    one, two, _ = given(team, count=3)
    Assignment.objects.exclude(pk__in=[one.pk, two.pk]).update(assigned_at=timezone.now() - timedelta(minutes=29))
    assert worked(one) == 1 and worked(one) == 0
    with transaction.atomic():
        leads.close(lead_ids=[two.lead_id])
    assert keep().late == 0
    assert Lead.objects.get(pk=one.lead_id).worked_by == "Kim"


def test_a_team_that_wants_to_be_told_only_is_told_once() -> None:
    team = level(make_team(reps=2), when_late="alert")
    (turn,) = given(team)
    assert (keep().late, keep().late) == (1, 0)
    assert ServiceBreach.objects.get().outcome == "alerted"
    assert Assignment.objects.current().get() == turn


def test_a_persons_choice_is_shown_and_not_overwritten() -> None:
    team = level(make_team(reps=2))
    (turn,) = given(team)
    with transaction.atomic():
        assign_by_hand(lead_id=turn.lead_id, membership=turn.membership, by="Kim", reason="knows them")
    assert keep().moved == 0
    assert ServiceBreach.objects.get().outcome == "chosen"
    assert Assignment.objects.current().get() == turn


def test_a_lead_is_moved_no_more_often_than_its_team_allows() -> None:
    team = level(make_team(reps=5), moves=2)
    given(team)
    seen = []
    for _ in range(4):
        seen.append(keep().moved)
        Assignment.objects.current().update(assigned_at=timezone.now() - AGO)
    assert seen == [1, 1, 0, 0]
    assert ServiceBreach.objects.order_by("-pk")[0].outcome == "enough"
    had = list(Assignment.objects.values_list("membership_id", flat=True))
    assert len(had) == len(set(had)) == 3, "it goes back to nobody who had it"


def test_where_nobody_else_is_there_the_rep_keeps_it_until_somebody_comes() -> None:
    team = make_team(reps=1)
    other = make_member(team=team)
    Membership.objects.filter(pk=other.pk).update(active=False)
    level(team)
    (turn,) = given(team)
    for _ in range(2):
        assert keep().moved == 0
        assert ServiceBreach.objects.get().outcome == "nobody"
        assert Assignment.objects.current().get() == turn
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(pk=other.pk), active=True)
    assert keep().moved == 1
    assert Assignment.objects.current().get().membership == other


def test_leads_given_before_the_level_began_are_not_measured() -> None:
    team = make_team(reps=2)
    given(team)
    with transaction.atomic():
        set_level(team=team, minutes=30, when_late="reassign", moves=2)
    assert not late_now()
    since = Team.objects.get(pk=team.pk).service_since
    with transaction.atomic():
        set_level(team=team, minutes=10, when_late="alert", moves=2)
    assert Team.objects.get(pk=team.pk).service_since == since, "a change does not begin it anew"


def at_work(team: Team, zone: str, *, start: time = time(9), end: time = time(17)) -> Rep:
    """A rep with weekday hours on a clock of their own, planned from START."""
    rep = make_rep(zone=zone)
    with transaction.atomic():
        hours.set_hours(rep=rep, hours=[spans.Span(day, start, end) for day in range(7)])
        rep.shifts.all().delete()
        hours.plan_rep(rep_id=rep.pk, now=START)
    make_member(team=team, rep=rep)
    return rep


def late_at(team: Team, assigned: str, now: str) -> bool:
    """Whether a lead assigned then is late at that moment."""
    lead = make_lead(team=team)
    member = team.memberships.get()
    with transaction.atomic():
        turn = assign_by_hand(lead_id=lead.pk, membership=member, by="Kim", reason="test")
    Assignment.objects.filter(pk=turn.pk).update(assigned_at=datetime.fromisoformat(assigned))
    found = late_now(now=datetime.fromisoformat(now))
    Assignment.objects.filter(pk=turn.pk).update(ended_at=timezone.now(), end_reason="closed")
    return turn.pk in found


def test_only_minutes_in_which_the_rep_works_count() -> None:
    team = level(make_team(outside_hours="wait"), minutes=30, when_late="alert")
    at_work(team, "Europe/Paris")
    # Friday 16:50 in Paris is 14:50 UTC: ten minutes that day, twenty more from 09:00 on Saturday, 07:00 UTC
    assert not late_at(team, "2026-10-23T14:50+00:00", "2026-10-24T07:19:59+00:00")
    assert late_at(team, "2026-10-23T14:50+00:00", "2026-10-24T07:20:00+00:00")
    # given at night: the minutes begin when the rep does
    assert not late_at(team, "2026-10-23T22:00+00:00", "2026-10-24T07:29:59+00:00")
    assert late_at(team, "2026-10-23T22:00+00:00", "2026-10-24T07:30:00+00:00")


def test_when_the_clocks_go_back_the_minutes_are_still_sixty_to_the_hour() -> None:
    team = level(make_team(outside_hours="wait"), minutes=30, when_late="alert")
    at_work(team, "Europe/Paris")
    # Saturday 16:50 summer time is 14:50 UTC; Sunday 09:00 winter time is 08:00 UTC
    assert not late_at(team, "2026-10-24T14:50+00:00", "2026-10-25T08:19:59+00:00")
    assert late_at(team, "2026-10-24T14:50+00:00", "2026-10-25T08:20:00+00:00")


def test_a_night_shift_over_the_change_of_the_clocks_is_an_hour_longer() -> None:
    team = level(make_team(outside_hours="wait"), minutes=180, when_late="alert")
    at_work(team, "Europe/Paris", start=time(1), end=time(4))
    # from 01:00 to 04:00 on that night four hours pass: 23:00 UTC to 03:00 UTC
    assert late_at(team, "2026-10-24T23:00+00:00", "2026-10-25T02:00+00:00")
    assert not late_at(team, "2026-10-24T23:00+00:00", "2026-10-25T01:59:59+00:00")


def test_a_day_off_does_not_count() -> None:
    team = level(make_team(outside_hours="wait"), minutes=60, when_late="alert")
    rep = at_work(team, "Europe/Paris")
    with transaction.atomic():
        hours.add_time_off(
            rep=rep, first_day=START.date() + timedelta(days=1), back_on=START.date() + timedelta(days=3)
        )
        hours.plan_rep(rep_id=rep.pk, now=START)
    assert not late_at(team, "2026-10-23T14:30+00:00", "2026-10-26T08:29:59+00:00")
    assert late_at(team, "2026-10-23T14:30+00:00", "2026-10-26T08:30:00+00:00")


def test_a_team_that_ignores_hours_counts_every_minute() -> None:
    team = level(make_team(reps=1), minutes=30, when_late="alert")
    assert late_at(team, "2026-10-24T02:00+00:00", "2026-10-24T02:30:00+00:00")


def test_the_command_counts_and_then_does_it(capsys: Any) -> None:
    given(level(make_team(reps=2)))
    call_command("keep_service_levels", "--dry-run", "--json")
    assert capsys.readouterr().out == '{"late": 1, "moved": 0, "failed": 0}\n'
    call_command("keep_service_levels", "--json")
    assert capsys.readouterr().out == '{"late": 1, "moved": 1, "failed": 0}\n'
    assert service_levels.keep().late == 0
