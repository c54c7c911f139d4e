"""Service levels: a rep works a new lead within so many working minutes, or it is shown, or goes to the next in turn.

Working minutes are minutes of the rep's shifts, which are moments of the world's clock: nights, holidays, days off and
changes of the clock need no exception here. A person's word comes first: a lead that somebody has worked, or gave to
this rep by hand, is never moved; and no lead is moved more often than its team allows.
"""

import logging
import time
from dataclasses import dataclass
from datetime import datetime

from django.db import DatabaseError, connection, transaction
from django.db.models.functions import Coalesce, Now

from crmsync.nudge import nudge
from routing.models import Assignment, Lead, ServiceBreach, Team
from routing.reassign import pass_on

logger = logging.getLogger(__name__)

BY = "service level"
MOST = 500
"""Late leads looked at in one run; the next comes within a minute."""
BUDGET_S = 20
LOOK_BACK_DAYS = 60
"""An assignment older than that is looked at no more: what was wrong with it has been shown for weeks."""
Outcome = ServiceBreach.Outcome


@dataclass
class Kept:
    """Leads found late in this run, how many of them went to somebody else, and how many are left to the next run
    because their team's turnstile was busy or the database refused.
    """

    late: int = 0
    moved: int = 0
    failed: int = 0


def set_level(*, team: Team, minutes: int | None, when_late: str, moves: int) -> None:
    """Set a team's service level; None for none. Leads that were given before it began are not measured.

    No turn reads it. Call inside a transaction.
    """
    since = None if minutes is None else Coalesce("service_since", Now())
    row = Team.objects.filter(pk=team.pk)
    row.update(service_minutes=minutes, when_late=when_late, late_moves=moves, service_since=since)


def keep(*, now: datetime | None = None) -> Kept:
    """Deal with every assignment that is late by now, the longest first, each in a transaction of its own."""
    kept, until = Kept(), time.monotonic() + BUDGET_S
    for assignment_id in late_now(now=now):
        if time.monotonic() > until:
            break
        try:
            outcome = deal_with(assignment_id=assignment_id, now=now)
        except DatabaseError as fault:
            logger.warning("late assignment=%s fault=%s", assignment_id, type(fault.__cause__ or fault).__name__)
            kept.failed += 1
            continue
        kept.late += outcome is not None
        kept.moved += outcome == Outcome.MOVED
    if kept.moved:
        nudge("crm")
    return kept


def late_now(*, now: datetime | None = None) -> list[int]:
    """Current assignments that are late and were not dealt with, by id; `now` is the database's clock by default."""
    with connection.cursor() as cursor:
        cursor.execute(LATE, {"days": LOOK_BACK_DAYS, "most": MOST, "now": now})
        return [pk for (pk,) in cursor.fetchall()]


def deal_with(*, assignment_id: int, now: datetime | None = None) -> str | None:
    """Show a late lead or give it to the next, as its team wants; what came of it, or None if it is late no more.

    Opens a transaction. The lock on the lead proves that nobody works, closes or gives it away between the check, which
    is a statement of its own, and our commit. Skipped where somebody does that now: it is theirs to settle.
    """
    with transaction.atomic(durable=True):
        row = Assignment.objects.filter(pk=assignment_id).values_list("lead_id", flat=True)
        lead = Lead.objects.filter(pk__in=list(row)).select_for_update(skip_locked=True, no_key=True).first()
        held = still_late(assignment_id, now) if lead else None
        if held is None:
            return None
        outcome = what_to_do(held)
        if outcome == Outcome.MOVED and not pass_on(assignment=held, by=BY, reason=why(held)):
            transaction.set_rollback(True)
            outcome = Outcome.NOBODY
        else:
            write_down(held, outcome)
    if outcome == Outcome.NOBODY:
        with transaction.atomic(durable=True):
            write_down(held, outcome)
    logger.info("late lead=%s assignment=%s outcome=%s", held.lead_id, held.pk, outcome)
    return str(outcome)


def still_late(assignment_id: int, now: datetime | None) -> Assignment | None:
    """The assignment, if it is late by what is committed now."""
    with connection.cursor() as cursor:
        cursor.execute(f"{LATE_ONES} AND a.id = %(one)s", {"days": LOOK_BACK_DAYS, "one": assignment_id, "now": now})
        if cursor.fetchone() is None:
            return None
    return Assignment.objects.select_related("membership", "team", "lead", "roster").get(pk=assignment_id)


def what_to_do(held: Assignment) -> Outcome:
    """What a late assignment comes to, as far as it is not the others' presence that decides."""
    if held.team.when_late == Team.WhenLate.ALERT:
        return Outcome.ALERTED
    if held.chosen_by:
        return Outcome.CHOSEN
    moved = ServiceBreach.objects.filter(lead_id=held.lead_id, outcome=Outcome.MOVED).count()
    return Outcome.ENOUGH if moved >= held.team.late_moves else Outcome.MOVED


def why(held: Assignment) -> str:
    """The reason that stays in the lead's history."""
    return f"not worked within {held.team.service_minutes} working minutes"


def write_down(held: Assignment, outcome: Outcome) -> None:
    """Record it once for this assignment; a lead that nobody could take before may be taken later."""
    minutes = held.team.service_minutes or 1
    ServiceBreach.objects.update_or_create(
        assignment=held,
        defaults={"outcome": outcome},
        create_defaults={"outcome": outcome, "lead_id": held.lead_id, "minutes": minutes},
    )


# Late: current, not worked, given since the level began, and its minutes of the rep's shifts are used up. Where a team
# ignores hours, every minute counts.
LATE_ONES = """
    SELECT a.id
      FROM routing_team t CROSS JOIN (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) clock
      JOIN routing_assignment a ON a.team_id = t.id AND a.ended_at IS NULL AND a.assigned_at >= t.service_since
       AND a.assigned_at > clock.now - make_interval(days => %(days)s)
      JOIN routing_lead l ON l.id = a.lead_id AND l.status = 'assigned' AND l.first_worked_at IS NULL
      JOIN routing_membership m ON m.id = a.membership_id
      LEFT JOIN routing_servicebreach b ON b.assignment_id = a.id
     WHERE t.service_minutes IS NOT NULL AND t.retired_at IS NULL AND (b.id IS NULL OR b.outcome = 'nobody')
       AND clock.now - a.assigned_at >= make_interval(mins => t.service_minutes)
       AND (t.outside_hours = 'ignore' OR make_interval(mins => t.service_minutes) <= (
            SELECT sum(least(upper(s.during), clock.now) - greatest(lower(s.during), a.assigned_at))
              FROM routing_shift s
             WHERE s.rep_id = m.rep_id AND upper(s.during) > a.assigned_at AND lower(s.during) < clock.now))
"""
LATE = f"{LATE_ONES} ORDER BY a.assigned_at, a.id LIMIT %(most)s"
