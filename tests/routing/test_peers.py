"""What went wrong elsewhere, in public reports, and goes right here. Kinds shown by other files: tests/peers.py."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from outreach.flows.notices import send_notices
from outreach.models import Notice
from routing import hours, members
from routing.models import Assignment, Lead, Membership, Rep, RepCount, Team, Turnstile
from routing.presence import seats
from routing.reassign import assign_by_hand
from routing.sweep import sweep_team
from routing.turns import take_turns
from tests.make import make_lead, make_member, make_rep, make_source, make_team
from tests.outreach.relays import sink
from tests.outreach.test_notices import notices_at
from tests.races.crowd import at_once, faults, take_in
from tests.routing.rows import give, members_of, waiting

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_reps_with_room_for_one_lead_each_take_one_each_and_the_third_waits_in_sight() -> None:
    team = make_team()
    for _ in range(2):
        make_member(team=team, rep=make_rep(open_cap=1))
    assert Counter(give(team, 3)) == dict.fromkeys(members_of(team), 1)
    assert len(waiting(team)) == 1


def test_two_leads_at_the_same_moment_are_both_accepted_and_go_to_different_reps() -> None:
    source = make_source(team=make_team(reps=2))
    answers = at_once(2, lambda _: take_in(source))
    assert not faults(answers)
    sweep_team(team_id=source.team_id)
    assert len(set(Assignment.objects.values_list("membership_id", flat=True))) == 2


def test_a_cap_holds_from_the_first_lead_though_nothing_was_ever_counted() -> None:
    team = make_team()
    make_member(team=team, rep=make_rep(day_cap=100))
    assert not RepCount.objects.exists()
    assert len(give(team, 101)) == 100, "the cap that is shown is the cap that holds"
    assert RepCount.objects.get().count == 100


def test_on_a_new_day_the_count_begins_once_and_not_at_every_lead() -> None:
    team = make_team()
    rep = make_rep(day_cap=2)
    make_member(team=team, rep=rep)
    yesterday = (timezone.now() - timedelta(days=1)).date()
    RepCount.objects.create(rep=rep, kind="day", since=yesterday, count=2)
    assert [len(give(team, 1)) for _ in range(4)] == [1, 1, 0, 0]


def test_an_assignment_undone_in_its_own_transaction_leaves_no_trace_and_costs_no_turn() -> None:
    team = make_team(reps=2)
    lead = make_lead(team=team)
    take_turns(team_id=team.pk)
    before = state_of(team)
    other = team.memberships.exclude(pk=Assignment.objects.get().membership_id).get()
    with transaction.atomic():
        assign_by_hand(lead_id=lead.pk, membership=other, by="another program", reason="its own idea")
        transaction.set_rollback(True)
    assert state_of(team) == before


def state_of(team: Team) -> list[Any]:
    return [
        list(team.memberships.order_by("pk").values_list("lag", "last_turn")),
        list(Assignment.objects.order_by("pk").values()),
        list(Lead.objects.order_by("pk").values()),
        list(Turnstile.objects.values()),
    ]


def test_who_overwrites_an_owner_is_named_and_the_turn_of_before_stays_counted_once() -> None:
    team = make_team(reps=2)
    lead = make_lead(team=team)
    take_turns(team_id=team.pk)
    before = list(team.memberships.order_by("pk").values_list("lag", flat=True))
    other = team.memberships.exclude(pk=Assignment.objects.get().membership_id).get()
    with transaction.atomic():
        assign_by_hand(lead_id=lead.pk, membership=other, by="another program", reason="its own idea")
    assert Assignment.objects.get(ended_at__isnull=False).ended_by == "another program"
    assert list(team.memberships.order_by("pk").values_list("lag", flat=True)) == before


@pytest.mark.parametrize("gone", ["rep retired", "out of turns", "off hours", "time off", "no room"])
def test_whatever_says_that_somebody_is_gone_keeps_leads_away_and_is_shown(gone: str) -> None:
    team = make_team(reps=2, outside_hours="wait")
    for rep in Rep.objects.all():
        with transaction.atomic():
            now = timezone.now()
            members.set_shifts(rep=rep, ranges=[(now - timedelta(days=2), now + timedelta(days=2))])
    one = team.memberships.earliest("pk")
    today = timezone.now().date()
    with transaction.atomic():
        match gone:
            case "rep retired":
                members.retire_reps(reps=Rep.objects.filter(pk=one.rep_id))
            case "out of turns":
                members.set_active(memberships=Membership.objects.filter(pk=one.pk), active=False)
            case "off hours":
                members.set_shifts(rep=one.rep, ranges=[])
            case "time off":
                hours.add_time_off(rep=one.rep, first_day=today, back_on=today + timedelta(days=2))
            case "no room":
                members.set_caps(rep=one.rep, day_cap=0, week_cap=None, open_cap=None, zone="UTC")
    assert one.pk not in give(team, 4) and not waiting(team)
    seat = next(seat for seat in seats(team_ids=[team.pk])[team.pk] if seat.membership_id == one.pk)
    assert seat.why_not, "and the team's page says why"


def test_somebody_entered_anew_takes_turns_though_their_old_row_is_retired() -> None:
    team = make_team(reps=1)
    old = Rep.objects.get()
    with transaction.atomic():
        members.retire_reps(reps=Rep.objects.all())
    (waits,) = [make_lead(team=team)]
    take_turns(team_id=team.pk)
    again = make_member(team=team, rep=make_rep(name=old.name))
    sweep_team(team_id=team.pk)
    assert Assignment.objects.get(lead=waits).membership == again


def test_time_off_takes_a_shift_made_by_hand_away_too() -> None:
    team = make_team(reps=1, outside_hours="wait")
    rep, now = Rep.objects.get(), timezone.now()
    with transaction.atomic():
        members.set_shifts(rep=rep, ranges=[(now - timedelta(hours=1), now + timedelta(hours=1))])
        hours.add_time_off(rep=rep, first_day=now.date() - timedelta(days=1), back_on=now.date() + timedelta(days=2))
    assert give(team, 1) == [] and len(waiting(team)) == 1


def test_a_lead_that_a_sweep_gives_out_is_told_to_its_rep_once(settings: Any, tmp_path: Path) -> None:
    team = make_team(reps=1)
    lead = make_lead(team=team)
    with sink(tmp_path) as relay:
        notices_at(settings, relay.port)
        sweep_team(team_id=team.pk)
        for worker in ("w1", "w2"):
            send_notices(worker=worker)
        assert relay.addresses() == {Rep.objects.get().email: 1}
    assert Notice.objects.get().assignment.lead == lead
