"""Change who takes turns: join, leave, weight, hours, caps, retirement.

A turn reads all of this, so every change here takes the turnstiles of the teams concerned first, in ascending order,
as the turns themselves do: a change falls between two turns, never into one. Each function is a move: call inside a
transaction.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import QuerySet
from django.db.models.functions import Now

from crmsync.nudge import ask
from routing import spans
from routing.hours import plan_rep
from routing.models import Membership, Rep, Shift, Team, TeamPart
from routing.turnstiles import hold_turnstiles, sweep_when_committed, teams_of


def add_member(*, team: Team, rep: Rep, weight: int = 1) -> Membership:
    """Let a rep take turns in a team, from a lag of 0. Who was a member before comes back with the lag of the day
    they left.
    """
    hold_turnstiles(team_ids=[team.pk])
    membership, new = Membership.objects.get_or_create(team=team, rep=rep, defaults={"weight": weight})
    if not new:
        Membership.objects.filter(pk=membership.pk).update(active=True, weight=weight)
        membership.refresh_from_db()
    transaction.on_commit(lambda: ask("routing.tasks.plan_shifts_of", rep.pk))
    sweep_when_committed(team_ids=[team.pk])
    return membership


def set_active(*, memberships: QuerySet[Membership], active: bool) -> int:
    """Let members take part in turns, or not any more; their lag stays as it is. Return how many changed."""
    team_ids = sorted(set(memberships.values_list("team_id", flat=True)))
    hold_turnstiles(team_ids=team_ids)
    changed = memberships.exclude(active=active).update(active=active)
    sweep_when_committed(team_ids=team_ids)
    return changed


def set_weight(*, membership: Membership, weight: int) -> None:
    """Change a member's share, from 1 to 100, of the leads to come. What is owed so far stays owed."""
    hold_turnstiles(team_ids=[membership.team_id])
    Membership.objects.filter(pk=membership.pk).update(weight=weight)


def retire_teams(*, teams: QuerySet[Team]) -> int:
    """Take teams out of service: their waiting leads stay visible, nobody takes them. Return how many."""
    hold_turnstiles(team_ids=teams.values_list("pk", flat=True))
    return teams.filter(retired_at=None).update(retired_at=Now())


def retire_reps(*, reps: QuerySet[Rep]) -> int:
    """Take reps out of all turns for good; their open leads stay theirs. Return how many."""
    rep_ids = list(reps.values_list("pk", flat=True))
    hold_turnstiles(team_ids=teams_of(rep_ids=rep_ids))
    return Rep.objects.filter(pk__in=rep_ids, retired_at=None).update(retired_at=Now())


def set_outside_hours(*, team: Team, outside_hours: str) -> None:
    """Choose what a team does outside everybody's shifts (Team.OutsideHours)."""
    hold_turnstiles(team_ids=[team.pk])
    Team.objects.filter(pk=team.pk).update(outside_hours=outside_hours)
    sweep_when_committed(team_ids=[team.pk])


def set_rep(*, rep: Rep, name: str, email: str, crm_user_id: str) -> None:
    """Correct who a rep is. A turn tells the CRM the rep's user id as the lead's owner."""
    hold_turnstiles(team_ids=teams_of(rep_ids=[rep.pk]))
    Rep.objects.filter(pk=rep.pk).update(name=name, email=email, crm_user_id=crm_user_id)


def set_direct_counts(*, team: Team, direct_counts: bool) -> None:
    """Choose whether leads given past the turns are part of a member's share, or on top of it. Past leads stay."""
    hold_turnstiles(team_ids=[team.pk])
    Team.objects.filter(pk=team.pk).update(direct_counts=direct_counts)


def set_caps(*, rep: Rep, day_cap: int | None, week_cap: int | None, open_cap: int | None, zone: str) -> None:
    """Set what a rep may receive, None for no limit, and the time zone of their days.

    A cap set today counts what the rep was given today: the counters are filled from the assignments.
    """
    team_ids = teams_of(rep_ids=[rep.pk])
    hold_turnstiles(team_ids=team_ids)
    moved = Rep.objects.filter(pk=rep.pk).exclude(zone=zone).exists()
    Rep.objects.filter(pk=rep.pk).update(day_cap=day_cap, week_cap=week_cap, open_cap=open_cap, zone=zone)
    if moved:
        plan_rep(rep_id=rep.pk)
    with connection.cursor() as cursor:
        cursor.execute(FILL_COUNTS, [rep.pk])
    sweep_when_committed(team_ids=team_ids)


def set_shifts(*, rep: Rep, ranges: Sequence[tuple[datetime, datetime]]) -> None:
    """Replace all of the rep's shifts by these (from, to) ranges, made by hand: no plan changes them."""
    team_ids = teams_of(rep_ids=[rep.pk])
    hold_turnstiles(team_ids=team_ids)
    Shift.objects.filter(rep=rep).delete()
    _add(rep, spans.union(ranges))
    sweep_when_committed(team_ids=team_ids)


def add_shifts(*, rep: Rep, ranges: Sequence[tuple[datetime, datetime]]) -> int:
    """Add shifts by hand, (from, to) each, as far as the rep does not work then already. Return how many were added."""
    team_ids = teams_of(rep_ids=[rep.pk])
    hold_turnstiles(team_ids=team_ids)
    there = [(row.during.lower, row.during.upper) for row in Shift.objects.filter(rep=rep)]
    added = _add(rep, spans.minus(spans.union(ranges), there))
    sweep_when_committed(team_ids=team_ids)
    return added


def remove_shifts(*, shift_ids: Sequence[int]) -> int:
    """Remove shifts made by hand. Return how many. Planned ones stay, the next plan would bring them back: whoever does
    not work then has time off.
    """
    by_hand = Shift.objects.filter(pk__in=shift_ids, planned=False)
    hold_turnstiles(team_ids=teams_of(rep_ids=list(by_hand.values_list("rep_id", flat=True))))
    return by_hand.delete()[0]


def part_of(*, team: Team, memberships: Iterable[Membership]) -> TeamPart:
    """The part of a team made of these members. Made once, then the same row."""
    members = sorted({membership.pk for membership in memberships})
    return TeamPart.objects.get_or_create(team=team, members=members)[0]


def _add(rep: Rep, ranges: Sequence[tuple[datetime, datetime]]) -> int:
    return len(Shift.objects.bulk_create(Shift(rep=rep, during=DateTimeTZRange(*each)) for each in ranges))


# Days and weeks count assignments made in them, ended or not; open leads count current assignments.
FILL_COUNTS = """
    INSERT INTO routing_repcount (rep_id, kind, since, count)
    SELECT rep.id, period.kind, period.since,
           (SELECT count(*) FROM routing_assignment assignment
              JOIN routing_membership membership ON membership.id = assignment.membership_id
             WHERE membership.rep_id = rep.id
               AND CASE WHEN period.kind = 'open' THEN assignment.ended_at IS NULL
                        ELSE assignment.assigned_at >= period.since::timestamp AT TIME ZONE rep.zone END)
      FROM routing_rep rep, rep_periods_of(rep, clock_timestamp()) period
     WHERE rep.id = %s
    ON CONFLICT (rep_id, kind, since) DO UPDATE SET count = excluded.count
"""
