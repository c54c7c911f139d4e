"""Leads go to the members of a team in fair turn, one after the other, and each turn says why."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import psycopg.errors
import pytest
from django.db import connection, transaction
from django.db.transaction import TransactionManagementError
from django.test import override_settings
from django.utils import timezone

from crmsync.models import OutboxMessage
from routing import leads, members
from routing.models import Assignment, Lead, Membership, Rep, RepCount, Roster, Shift, Team, Turnstile
from routing.models.team import ROUNDING, SCALE
from routing.turns import Turn, set_aside, take_singly, take_turns, take_turns_of
from tests.make import make_lead, make_member, make_rep, make_team
from tests.routing.rows import give, members_of, taken, waiting
from tests.routing.sessions import another_session

pytestmark = pytest.mark.django_db(transaction=True)


def due_sequence(weights: list[int], count: int) -> list[int]:
    """Who is due, by the rule as the design states it, in plain Python: an index of `weights` for each lead."""
    lags, lasts, total, sequence = [0] * len(weights), [0] * len(weights), sum(weights), []
    for turn in range(1, count + 1):
        shares = [SCALE * weight // total for weight in weights]
        lags = [lag + share for lag, share in zip(lags, shares, strict=True)]
        owed = [i for i in range(len(weights)) if lags[i] > ROUNDING]
        if owed:
            best = owed[0]
            for i in owed[1:]:
                mine, other = (SCALE - lags[i]) * weights[best], (SCALE - lags[best]) * weights[i]
                if mine < other or (mine == other and lasts[i] < lasts[best]):
                    best = i
        else:
            best = max(range(len(weights)), key=lambda i: (lags[i], -lasts[i], -i))
        lags[best] -= sum(shares)
        lasts[best] = turn
        sequence.append(best)
    return sequence


def lags_of(team: Team) -> list[float]:
    return [lag / SCALE for lag in team.memberships.order_by("pk").values_list("lag", flat=True)]


def set_caps(
    rep: Rep, *, day: int | None = None, week: int | None = None, open_: int | None = None, zone="UTC"
) -> None:
    with transaction.atomic():
        members.set_caps(rep=rep, day_cap=day, week_cap=week, open_cap=open_, zone=zone)


def set_shifts(rep: Rep, *hours: tuple[float, float]) -> None:
    """Shifts from and to so many hours from now."""
    now = timezone.now()
    ranges = [(now + timedelta(hours=start), now + timedelta(hours=end)) for start, end in hours]
    with transaction.atomic():
        members.set_shifts(rep=rep, ranges=ranges)


# Whose turn it is


def test_members_of_equal_weight_take_turns_in_the_order_they_joined():
    team = make_team(reps=3)
    a, b, c = members_of(team)
    assert give(team, 7) == [a, b, c, a, b, c, a]


def test_leads_that_come_one_by_one_and_leads_that_come_at_once_go_the_same_way():
    single, batch = make_team(reps=3), make_team(reps=3)
    order = [members_of(single).index(member) for _ in range(6) for member in give(single, 1)]
    assert order == [members_of(batch).index(member) for member in give(batch, 6)]


def test_a_member_of_double_weight_takes_two_leads_of_three_in_every_three():
    team = make_team(weights=(2, 1))
    a, b = members_of(team)
    assert give(team, 9) == [a, a, b] * 3


@pytest.mark.parametrize(
    "weights", [(1, 1), (3, 1), (5, 3, 2), (7, 1, 1, 1), (100, 1), (19, *(1,) * 19), (10, 9, 8, 7)]
)
def test_turns_go_by_the_rule_of_the_design_for_any_weights_and_nobody_is_a_lead_off(weights):
    team = make_team(weights=weights)
    ids = members_of(team)
    assert [ids.index(member) for member in give(team, 240)] == due_sequence(list(weights), 240)
    turns = taken(team)
    for count in range(1, 241):
        had = Counter(turns[:count])
        assert all(abs(had[ids[i]] * sum(weights) - count * w) < sum(weights) for i, w in enumerate(weights))
    assert sum(team.memberships.values_list("lag", flat=True)) == 0


def test_runs_of_one_lead_each_do_not_all_go_to_the_oldest_member():
    team = make_team(reps=3)
    for _ in range(30):
        give(team, 1)
    assert sorted(Counter(taken(team)).values()) == [10, 10, 10]


def test_fresh_teams_begin_with_their_first_member_and_the_order_is_stated():
    assert [members_of(team).index(give(team, 1)[0]) for team in (make_team(reps=3) for _ in range(5))] == [0] * 5


def test_no_member_gets_two_leads_running_while_weights_are_equal():
    turns = give(make_team(reps=2), 20)
    assert all(one != other for one, other in pairwise(turns))


def test_a_new_member_gets_a_fair_share_from_now_and_is_not_flooded_for_the_past():
    team = make_team(reps=2)
    give(team, 40)
    new = make_member(team=team).pk
    assert Counter(give(team, 30))[new] == 10


def test_who_comes_back_from_leave_gets_no_burst():
    team = make_team(reps=3)
    a, *_ = members_of(team)
    away = Membership.objects.filter(pk=a)
    give(team, 3)
    with transaction.atomic():
        members.set_active(memberships=away, active=False)
    assert a not in give(team, 30)
    with transaction.atomic():
        members.set_active(memberships=away, active=True)
    assert Counter(give(team, 30))[a] == 10


def test_absence_freezes_the_lag_to_the_unit():
    team = make_team(weights=(100, 100, 50))
    give(team, 2)
    c = team.memberships.order_by("pk").last()
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(pk=c.pk), active=False)
    give(team, 20)
    assert Membership.objects.get(pk=c.pk).lag == c.lag


def test_inactive_members_and_retired_reps_get_nothing_and_nobody_takes_their_share_for_them():
    team = make_team(reps=4)
    a, b, c, d = members_of(team)
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(pk=b), active=False)
        members.retire_reps(reps=Rep.objects.filter(memberships=c))
    assert Counter(give(team, 10)) == {a: 5, d: 5}


def test_a_team_without_members_leaves_its_leads_waiting_in_sight():
    team = make_team()
    lead = make_lead(team=team)
    assert take_turns(team_id=team.pk, lead_id=lead.pk) == Turn("waiting", None, None, None, 0, False)
    assert waiting(team) == [lead.pk]


def test_a_retired_team_gives_out_nothing():
    team = make_team(reps=1)
    lead = make_lead(team=team)
    with transaction.atomic():
        assert members.retire_teams(teams=Team.objects.filter(pk=team.pk)) == 1
        assert members.retire_teams(teams=Team.objects.filter(pk=team.pk)) == 0
    assert take_turns(team_id=team.pk, lead_id=lead.pk).outcome == "retired"
    assert waiting(team) == [lead.pk]


def test_a_lead_with_a_single_candidate_moves_nobody():
    team = make_team(reps=3)
    a, b, c = members_of(team)
    part = members.part_of(team=team, memberships=[Membership.objects.get(pk=b)])
    assert give(team, 5, part=part) == [b] * 5
    assert lags_of(team) == [0, 0, 0]


def test_the_preferred_member_takes_the_lead_at_no_cost_while_available():
    team = make_team(reps=3)
    a, b, c = members_of(team)
    assert give(team, 4, preferred_id=c) == [c] * 4
    assert lags_of(team) == [0, 0, 0]
    assert Assignment.objects.filter(preferred=True).count() == 4
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(pk=c), active=False)
    assert give(team, 2, preferred_id=c) == [a, b]
    assert Assignment.objects.filter(preferred=False).count() == 2


def test_only_members_of_the_part_take_a_lead_of_that_part_also_before_a_preferred_outsider():
    team = make_team(reps=4)
    a, b, c, d = members_of(team)
    part = members.part_of(team=team, memberships=Membership.objects.filter(pk__in=[b, c]))
    assert give(team, 4, part=part) == [b, c, b, c]
    assert give(team, 1, part=part, preferred_id=d) == [b]
    assert give(team, 1, part=part, preferred_id=c) == [c]


def test_leads_that_each_exclude_their_old_owner_spread_evenly():
    team = make_team(reps=5)
    ids = members_of(team)
    everyone = {member.pk: member for member in Membership.objects.filter(team=team)}
    for number in range(100):
        old = ids[number * 7 % 5]
        part = members.part_of(team=team, memberships=[everyone[i] for i in ids if i != old])
        make_lead(team=team, part=part)
    take_turns(team_id=team.pk, most=1_000)
    had = Counter(taken(team))
    assert sum(had.values()) == 100 and max(had.values()) - min(had.values()) <= 2


def test_a_lead_nobody_present_may_take_does_not_hold_up_those_behind_it():
    team = make_team(reps=2)
    a, b = members_of(team)
    absent = members.part_of(team=team, memberships=[Membership.objects.get(pk=b)])
    with transaction.atomic():
        members.set_active(memberships=Membership.objects.filter(pk=b), active=False)
    stuck = make_lead(team=team, part=absent)
    assert give(team, 3) == [a] * 3
    assert waiting(team) == [stuck.pk]


# Hours


def test_outside_hours_leads_wait_unless_the_team_ignores_hours():
    team = make_team(reps=1, outside_hours="wait")
    lead = make_lead(team=team)
    assert take_turns(team_id=team.pk, lead_id=lead.pk).outcome == "waiting"
    with transaction.atomic():
        members.set_outside_hours(team=team, outside_hours="ignore")
    assert take_turns(team_id=team.pk, lead_id=lead.pk).outcome == "assigned"


def test_only_who_is_inside_a_shift_takes_leads():
    team = make_team(reps=4, outside_hours="wait")
    a, b, c, d = members_of(team)
    for member, hours in ((a, (-2, -1)), (b, (-1, 1)), (c, (1, 2))):
        set_shifts(Membership.objects.get(pk=member).rep, hours)
    assert give(team, 3) == [b] * 3
    assert Roster.objects.get(team=team).skipped == {str(member): "off hours" for member in (a, c, d)}


def test_a_shift_includes_its_first_moment_and_not_its_last():
    rep = make_rep()
    start, end = datetime(2026, 3, 29, 7, 30, tzinfo=UTC), datetime(2026, 3, 29, 15, 0, tzinfo=UTC)
    with transaction.atomic():
        members.set_shifts(rep=rep, ranges=[(start, end)])
    moment = timedelta(microseconds=1)
    inside = [Shift.objects.filter(during__contains=at).exists() for at in (start - moment, start, end - moment, end)]
    assert inside == [False, True, True, False]


def test_a_lead_that_came_at_night_goes_out_when_somebody_comes_older_leads_first():
    team = make_team(reps=1, outside_hours="wait")
    (a,) = members_of(team)
    night = [make_lead(team=team).pk for _ in range(3)]
    assert take_turns(team_id=team.pk).taken == 0
    set_shifts(Membership.objects.get(pk=a).rep, (-1, 1))
    newest = make_lead(team=team)
    assert take_turns(team_id=team.pk, lead_id=newest.pk, most=2) == Turn("waiting", None, None, None, 2, True)
    assert list(Assignment.objects.order_by("turn").values_list("lead_id", flat=True)) == night[:2]


# Caps


def test_a_day_cap_holds_and_the_others_take_what_is_left():
    team = make_team(reps=2)
    a, b = members_of(team)
    set_caps(Membership.objects.get(pk=a).rep, day=2)
    assert Counter(give(team, 10)) == {a: 2, b: 8}


def test_the_smallest_of_several_caps_holds():
    team = make_team(reps=2)
    a, b = members_of(team)
    set_caps(Membership.objects.get(pk=a).rep, day=5, week=3, open_=4)
    assert Counter(give(team, 10))[a] == 3


def test_a_cap_of_nothing_gives_nothing():
    team = make_team(reps=1)
    set_caps(Rep.objects.get(), day=0)
    assert give(team, 1) == []
    assert Roster.objects.count() == 0


def test_a_cap_holds_over_all_teams_of_the_rep_together():
    rep = make_rep()
    one, other = make_team(), make_team()
    for team in (one, other):
        make_member(team=team, rep=rep)
    set_caps(rep, day=3)
    assert (len(give(one, 2)), len(give(other, 2))) == (2, 1)


def test_a_cap_set_at_midday_counts_what_came_in_the_morning():
    team = make_team(reps=1)
    rep = Rep.objects.get()
    give(team, 3)
    set_caps(rep, day=4)
    assert RepCount.objects.get(rep=rep, kind="day").count == 3
    assert len(give(team, 3)) == 1


def test_leads_of_yesterday_do_not_count_against_today():
    team = make_team(reps=1)
    rep = Rep.objects.get()
    give(team, 3)
    Assignment.objects.update(assigned_at=timezone.now() - timedelta(days=1, seconds=1))
    set_caps(rep, day=2)
    assert len(give(team, 3)) == 2


def test_a_counter_of_yesterday_stops_nobody_today_and_today_begins_at_nothing():
    team = make_team(reps=1)
    rep = Rep.objects.get()
    set_caps(rep, day=1)
    RepCount.objects.filter(rep=rep).delete()
    yesterday = (timezone.now() - timedelta(days=1)).date()
    RepCount.objects.create(rep=rep, kind="day", since=yesterday, count=10)
    assert len(give(team, 3)) == 1
    assert RepCount.objects.get(since=yesterday).count == 10


def test_an_open_cap_counts_open_leads_only_and_closing_one_frees_the_place():
    team = make_team(reps=1)
    set_caps(Rep.objects.get(), open_=3)
    first = [make_lead(team=team).pk for _ in range(5)]
    take_turns(team_id=team.pk)
    assert waiting(team) == first[3:]
    with transaction.atomic():
        assert leads.close(lead_ids=[first[0]]) == 1
    newest = make_lead(team=team)
    assert take_turns(team_id=team.pk, lead_id=newest.pk).outcome == "waiting"
    assert waiting(team) == [first[4], newest.pk], "the oldest waiting lead comes first, however new the asker"


def test_leads_of_other_teams_and_closed_leads_do_not_make_a_rep_look_busy():
    team = make_team(reps=1)
    rep = Rep.objects.get()
    give(team, 9)
    with transaction.atomic():
        leads.close(lead_ids=list(Lead.objects.values_list("pk", flat=True)))
    set_caps(rep, open_=2)
    assert RepCount.objects.get(kind="open").count == 0
    assert len(give(team, 3)) == 2


def periods(zone: str, moment: str) -> dict[str, date]:
    """The day and the week of a moment for a rep in a zone, as the turn counts them."""
    rep = make_rep(zone=zone, day_cap=1, week_cap=1, open_cap=1)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT p.kind, p.since FROM routing_rep r, rep_periods_of(r, %s) p WHERE r.id = %s", [moment, rep.pk]
        )
        return dict(cursor.fetchall())


@pytest.mark.parametrize(
    "zone, moment, day, week",
    [
        ("America/Chicago", "2022-11-06T04:59:59Z", date(2022, 11, 5), date(2022, 10, 31)),
        ("America/Chicago", "2022-11-06T05:00:00Z", date(2022, 11, 6), date(2022, 10, 31)),
        ("America/Chicago", "2022-11-07T05:59:59Z", date(2022, 11, 6), date(2022, 10, 31)),
        ("America/Chicago", "2022-11-07T06:00:00Z", date(2022, 11, 7), date(2022, 11, 7)),
        ("Europe/Paris", "2026-03-28T23:00:00Z", date(2026, 3, 29), date(2026, 3, 23)),
        ("Europe/Paris", "2026-03-29T21:59:59Z", date(2026, 3, 29), date(2026, 3, 23)),
        ("Europe/Paris", "2026-03-29T22:00:00Z", date(2026, 3, 30), date(2026, 3, 30)),
        ("Pacific/Kiritimati", "2026-01-01T10:00:00Z", date(2026, 1, 2), date(2025, 12, 29)),
        ("Asia/Kolkata", "2026-11-29T18:30:00Z", date(2026, 11, 30), date(2026, 11, 30)),
        ("UTC", "2026-11-29T23:59:59Z", date(2026, 11, 29), date(2026, 11, 23)),
    ],
)
def test_a_reps_day_is_the_local_date_and_the_week_begins_on_monday(zone, moment, day, week):
    assert periods(zone, moment) == {"day": day, "week": week, "open": date(1, 1, 1)}


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_a_cap_set_counts_since_the_reps_own_midnight(zone):
    team = make_team(reps=1)
    give(team, 3)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE routing_assignment SET assigned_at = "
            "date_trunc('day', now() AT TIME ZONE %s) AT TIME ZONE %s + make_interval(secs => turn - 2)",
            [zone, zone],
        )
    set_caps(Rep.objects.get(), day=10, zone=zone)
    assert RepCount.objects.get(kind="day").count == 2


# What is written


def test_an_assignment_explains_itself():
    team = make_team(weights=(2, 1), outside_hours="wait")
    a, b = members_of(team)
    off = make_member(team=team).pk
    for member in (a, b):
        set_shifts(Membership.objects.get(pk=member).rep, (-1, 1))
    lead = make_lead(team=team)
    before = timezone.now()
    turn = take_turns(team_id=team.pk, lead_id=lead.pk)
    rep = Membership.objects.get(pk=a).rep
    assert turn == Turn("assigned", a, rep.pk, rep.name, 1, False)
    fact = Assignment.objects.get()
    assert (fact.lead_id, fact.membership_id, fact.team_id, fact.turn, fact.preferred) == (
        lead.pk,
        a,
        team.pk,
        1,
        False,
    )
    assert (fact.lag_before, fact.lag_after) == (0, SCALE * 2 // 3 - (SCALE * 2 // 3 + SCALE // 3))
    assert fact.roster.candidates == {str(a): 2, str(b): 1}
    assert fact.roster.skipped == {str(off): "off hours"}
    assert before <= fact.assigned_at and fact.ended_at is None
    lead.refresh_from_db()
    assert (lead.status, lead.first_assigned_at) == (Lead.Status.ASSIGNED, fact.assigned_at)
    assert Turnstile.objects.get(team=team).turn == 1


def test_those_passed_over_are_named_with_the_reason():
    team = make_team(reps=5)
    a, b, c, d, e = members_of(team)
    part = members.part_of(team=team, memberships=Membership.objects.filter(pk__in=[a, b, c, d]))
    set_caps(Membership.objects.get(pk=a).rep, day=0)
    set_caps(Membership.objects.get(pk=b).rep, open_=0)
    with transaction.atomic():
        members.retire_reps(reps=Rep.objects.filter(memberships=c))
    assert give(team, 1, part=part) == [d]
    assert Assignment.objects.get().roster.skipped == {
        str(a): "day cap",
        str(b): "open cap",
        str(c): "retired",
        str(e): "not among those allowed",
    }
    give(team, 1, preferred_id=e)
    assert Assignment.objects.get(turn=2).roster.skipped[str(d)] == "another is preferred"


def test_a_cap_reached_within_a_batch_is_told_in_the_turns_after_it():
    team = make_team(reps=2)
    a, b = members_of(team)
    set_caps(Membership.objects.get(pk=a).rep, day=1)
    give(team, 3)
    rosters = [fact.roster for fact in Assignment.objects.order_by("turn")]
    assert rosters[0].skipped == {}
    assert rosters[2].skipped == {str(a): "cap reached"}


def test_turns_with_the_same_candidates_share_one_roster_row():
    team = make_team(reps=3)
    for _ in range(3):
        give(team, 20)
    assert Roster.objects.filter(team=team).count() == 1


def test_turns_are_numbered_without_a_gap_and_the_lead_carries_what_the_crm_is_told():
    team = make_team(reps=2)
    Rep.objects.update(crm_user_id="005000000000001")
    give(team, 5, first_name="Pat", fields={"utm": "x"})
    assert list(Assignment.objects.order_by("turn").values_list("turn", flat=True)) == [1, 2, 3, 4, 5]
    message = OutboxMessage.objects.first()
    assert OutboxMessage.objects.count() == 5
    assert {"first_name": "Pat", "utm": "x", "owner": "005000000000001"}.items() <= message.fields.items()


def test_a_sender_cannot_name_the_owner_the_crm_is_told():
    team = make_team(reps=1)
    give(team, 1, fields={"owner": "005999999999999", "note": "kept"})
    fields = OutboxMessage.objects.get().fields
    assert "owner" not in fields and fields["note"] == "kept"


# The answer


def test_a_lead_taken_meanwhile_is_answered_with_who_has_it_and_no_turn_is_taken():
    team = make_team(reps=2)
    (member,) = give(team, 1)
    other = make_lead(team=team)
    turn = take_turns(team_id=team.pk, lead_id=Lead.objects.exclude(pk=other.pk).get().pk)
    assert (turn.outcome, turn.membership_id, turn.taken, turn.more) == ("assigned", member, 0, False)
    assert waiting(team) == [other.pk]


def test_more_says_that_leads_may_be_left():
    team = make_team(reps=1)
    for _ in range(5):
        make_lead(team=team)
    answers = [take_turns(team_id=team.pk, most=2) for _ in range(3)]
    assert [(turn.outcome, turn.taken, turn.more) for turn in answers] == [
        ("done", 2, True),
        ("done", 2, True),
        ("done", 1, False),
    ]


def test_a_busy_turnstile_is_answered_soon_and_the_lead_waits():
    team = make_team(reps=1)
    lead = make_lead(team=team)
    with another_session() as other:
        other.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [team.pk])
        assert take_turns(team_id=team.pk, lead_id=lead.pk, wait_ms=20) == Turn("busy", None, None, None, 0, True)
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone()[0] == "2s", "the caller's lock_timeout is restored"
    assert take_turns(team_id=team.pk, lead_id=lead.pk).outcome == "assigned"


def test_a_locked_counter_of_a_shared_rep_is_answered_busy():
    team = make_team(reps=1)
    rep = Rep.objects.get()
    set_caps(rep, day=5)
    lead = make_lead(team=team)
    with another_session() as other:
        other.execute("SELECT FROM routing_repcount WHERE rep_id = %s FOR UPDATE", [rep.pk])
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")
        assert take_turns(team_id=team.pk, lead_id=lead.pk).outcome == "busy"
    assert waiting(team) == [lead.pk]


def test_a_lead_somebody_else_holds_is_passed_over_and_its_owner_is_never_overwritten():
    team = make_team(reps=1)
    held, free = make_lead(team=team), make_lead(team=team)
    with another_session() as other:
        other.execute("SELECT FROM routing_lead WHERE id = %s FOR UPDATE", [held.pk])
        assert take_turns(team_id=team.pk).taken == 1
    assert Assignment.objects.get().lead == free
    assert waiting(team) == [held.pk]


def test_turns_are_refused_inside_a_transaction_and_outside_read_committed():
    team = make_team(reps=1)
    with transaction.atomic(), pytest.raises(TransactionManagementError):
        take_turns(team_id=team.pk)
    with pytest.raises(TransactionManagementError):
        take_turns_of(team_id=team.pk, lead_ids=[1])
    with another_session() as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with pytest.raises(psycopg.errors.ActiveSqlTransaction):
            other.execute("SELECT * FROM take_turns(%s)", [team.pk])


def test_leads_asked_for_go_before_older_ones_and_only_they():
    team = make_team(reps=2)
    old, asked = make_lead(team=team), make_lead(team=team)
    with transaction.atomic():
        turn = take_turns_of(team_id=team.pk, lead_ids=[asked.pk])
    assert (turn.outcome, turn.taken, turn.more) == ("done", 1, False)
    assert waiting(team) == [old.pk]


def test_leads_of_another_team_are_not_given_out_though_asked_for():
    team, other = make_team(reps=1), make_team(reps=1)
    lead = make_lead(team=other)
    with transaction.atomic():
        assert take_turns_of(team_id=team.pk, lead_ids=[lead.pk]).taken == 0


# When a turn fails


@pytest.fixture
def nobody_called_bad(request):
    """A constraint that only the turn of a lead called Bad violates, as a foreign key fault would."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION refuse_bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            "  IF EXISTS (SELECT FROM routing_lead WHERE id = NEW.lead_id AND last_name = 'Bad') THEN"
            "    RAISE foreign_key_violation USING MESSAGE = 'no such thing', DETAIL = 'secret@acme.example';"
            "  END IF; RETURN NEW; END $$;"
            "CREATE TRIGGER refuse_bad BEFORE INSERT ON routing_assignment FOR EACH ROW EXECUTE FUNCTION refuse_bad()"
        )
    yield
    connection.close_if_unusable_or_obsolete()
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION refuse_bad CASCADE")


def test_a_lead_whose_turn_fails_is_set_aside_in_sight_and_blocks_nobody(nobody_called_bad, caplog):
    team = make_team(reps=1)
    good = [make_lead(team=team).pk]
    bad = make_lead(team=team, last_name="Bad")
    good += [make_lead(team=team).pk]
    singly = take_singly(team_id=team.pk, most=100)
    assert (singly.taken, singly.set_aside, singly.busy) == (2, 1, False)
    assert list(Assignment.objects.order_by("turn").values_list("lead_id", flat=True)) == good
    bad.refresh_from_db()
    assert (bad.status, bad.set_aside_because.partition("\n")[0]) == (Lead.Status.SET_ASIDE, "no such thing")
    assert "secret@acme.example" not in caplog.text


def test_a_lead_that_no_longer_waits_is_not_set_aside():
    team = make_team(reps=1)
    give(team, 1)
    lead = Lead.objects.get()
    assert not set_aside(lead_id=lead.pk, because="late")
    assert Lead.objects.get().status == Lead.Status.ASSIGNED


def test_setting_aside_needs_a_reason_even_where_the_fault_has_none():
    lead = make_lead(team=make_team())
    assert set_aside(lead_id=lead.pk, because="")
    assert Lead.objects.get().set_aside_because


@override_settings(TURN_MOST=2)
def test_the_settings_bound_a_turn_that_names_no_bound():
    team = make_team(reps=1)
    for _ in range(3):
        make_lead(team=team)
    assert take_turns(team_id=team.pk).taken == 2
