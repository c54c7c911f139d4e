"""Give a lead to somebody else: by hand, back to the turns, or all the open leads of a rep to the rest of the team.

The old assignment ends with who ended it and why, and stays; the lead's first assignment keeps its date; the CRM is
told the new owner and nothing else. Locks are taken in the order that all keep to: leads, turnstiles, counters,
outbox.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import Case, F, QuerySet, When

from crmsync.nudge import nudge
from routing.choice import choose
from routing.credits import give_back
from routing.errors import LeadClosed, NobodyElse, NoReason
from routing.leads import close
from routing.models import Assignment, HandOver, Lead, Membership, RepCount, TeamPart
from routing.turns import Turn, take_turns_of
from routing.turnstiles import hold_turnstiles, sweep_when_committed

CRM = "CRM"
"""Who gave a lead to somebody, or took it, where it was done in the CRM."""


@dataclass(frozen=True)
class Moved:
    """Open leads of a rep given to the others: `taken` by somebody, `waiting` for one of them; `kept` where a person
    had chosen this rep, or nobody else may take the lead.
    """

    taken: int = 0
    waiting: int = 0
    kept: int = 0


def assign_by_hand(
    *, lead_id: int, membership: Membership, by: str, reason: str, turn_back: bool = False
) -> Assignment:
    """Give an open lead to a member of a team, past turns, hours and caps. Call inside a transaction.

    `turn_back` gives the rep who loses it the turn back. Raises NoReason, HasLeft, and LeadClosed if the lead is closed
    by now.
    """
    by, reason = _said(by, reason)
    lead = open_leads([lead_id]).first()
    if lead is None:
        raise LeadClosed
    current = Assignment.objects.current().filter(lead_id=lead_id).select_related("membership", "roster").first()
    if current and current.membership_id == membership.pk:
        Assignment.objects.filter(pk=current.pk).update(chosen_by=by, note=reason)
        current.refresh_from_db()
        return current
    hold_turnstiles(team_ids={membership.team_id, *([current.team_id] if current else [])})
    lock_counts({membership.rep_id, *([current.membership.rep_id] if current else [])})
    if current:
        end([current], reason=Assignment.EndReason.REASSIGNED, by=by, note=reason, turn_back=turn_back)
    return choose(lead=lead, membership=membership, by=by, reason=reason)


def respect_owner(*, lead_id: int, crm_user_id: str) -> Assignment | None:
    """Somebody gave the lead another owner in the CRM: the rep who owns it there has it from now on. Call inside a
    transaction.

    Who owns it there but takes part in no team took it out of Rota's hands: it is closed, and None is returned, as
    where nothing is to be done. The CRM is told nothing; it has what it said.
    """
    note = "Owner changed in the CRM"
    owner = _membership_of(crm_user_id, lead_id=lead_id)
    if owner is None:
        if not _holds(lead_id, crm_user_id):
            close(lead_ids=[lead_id], because=Assignment.EndReason.TAKEN_OVER, by=CRM, note=f"{note}, to {crm_user_id}")
        return None
    lead = open_leads([lead_id]).first()
    if lead is None or _holds(lead_id, crm_user_id):
        return None
    current = Assignment.objects.current().filter(lead_id=lead_id).select_related("membership").first()
    hold_turnstiles(team_ids={owner.team_id, *([current.team_id] if current else [])})
    lock_counts({owner.rep_id, *([current.membership.rep_id] if current else [])})
    if current:
        end([current], reason=Assignment.EndReason.TAKEN_OVER, by=CRM, note=note, turn_back=False)
    return choose(lead=lead, membership=owner, by=CRM, reason=note, tell_the_crm=False)


def is_rep(*, crm_user_id: str) -> bool:
    """Whether this CRM user is a rep who takes part in a team."""
    return _membership_of(crm_user_id, lead_id=0) is not None


def _holds(lead_id: int, crm_user_id: str) -> bool:
    """Whether the lead is with the rep of this CRM user. Ids of 15 letters and of 18 agree in their first 15."""
    current = Assignment.objects.current().filter(lead_id=lead_id)
    return current.filter(membership__rep__crm_user_id__startswith=crm_user_id[:15]).exists()


def _membership_of(crm_user_id: str, *, lead_id: int) -> Membership | None:
    """Where the rep with this CRM user takes part, in the lead's team rather than in another."""
    found = Membership.objects.filter(
        active=True, team__retired_at=None, rep__retired_at=None, rep__crm_user_id__startswith=crm_user_id[:15]
    )
    own = Lead.objects.filter(pk=lead_id).values("team_id")
    return found.order_by(Case(When(team_id__in=own, then=0), default=1), "pk").first()


def decline(*, lead_id: int, by: str, reason: str) -> Turn:
    """Take a lead from the rep who declines it, give the turn back, and give the lead to one of the others.

    Opens a transaction. Raises NoReason, LeadClosed if nobody has the lead, and NobodyElse.
    """
    by, reason = _said(by, reason)
    with transaction.atomic(durable=True):
        lead = open_leads([lead_id]).first()
        current = Assignment.objects.current().filter(lead_id=lead_id).select_related("membership", "roster").first()
        if lead is None or current is None:
            raise LeadClosed
        turn, kept = _over_to_the_others([current], Assignment.EndReason.DECLINED, by, reason, turn_back=True)
        if kept:
            raise NobodyElse
    nudge("crm")
    return turn


def give_to_the_others(
    *, membership: Membership, by: str, reason: str, also_chosen: bool = False, turns_back: bool = False
) -> Moved:
    """Give a member's open leads to the rest of the team, in fair turn and oldest first. Opens a transaction.

    Leads that a person gave to this rep stay, unless `also_chosen`. `turns_back` gives the turns back: for somebody who
    is ill for a day, not for somebody who has had their share and leaves. Raises NoReason.
    """
    by, reason = _said(by, reason)
    with transaction.atomic(durable=True):
        theirs = Assignment.objects.current().filter(membership=membership)
        leads = open_leads(list(theirs.values_list("lead_id", flat=True)))
        held = list(
            theirs.filter(lead__in=[lead.pk for lead in leads])
            .select_related("membership", "roster")
            .order_by("lead_id")
        )
        moving = [each for each in held if also_chosen or not each.chosen_by]
        run = HandOver.objects.create(membership=membership, by=by, reason=reason, turns_back=turns_back)
        turn, kept = _over_to_the_others(
            moving, Assignment.EndReason.REASSIGNED, by, reason, turn_back=turns_back, run=run
        )
        if kept == len(moving):
            run.delete()
    nudge("crm")
    return Moved(turn.taken, len(moving) - kept - turn.taken, kept + len(held) - len(moving))


def pass_on(*, assignment: Assignment, by: str, reason: str) -> bool:
    """Take a lead from a rep who did not work it in time, and give it to the next in turn among the others.

    Call inside a transaction that has locked the lead. False where none of them may take it or is present: roll back.
    """
    turn, _ = _over_to_the_others([assignment], Assignment.EndReason.LATE, by, reason, turn_back=False)
    return turn.taken == 1


def _over_to_the_others(
    held: Sequence[Assignment], why: str, by: str, reason: str, *, turn_back: bool, run: HandOver | None = None
) -> tuple[Turn, int]:
    """End these assignments of one member and take the turns of their leads. Return the turn, and how many stayed
    because nobody else may take them.
    """
    nothing = Turn("done", None, None, None, 0, False)
    if not held:
        return nothing, 0
    membership, team_id = held[0].membership, held[0].team_id
    hold_turnstiles(team_ids=[team_id])
    reps = Membership.objects.filter(team_id=team_id).values_list("rep_id", flat=True)
    lock_counts({membership.rep_id, *reps})
    parts = dict(Lead.objects.filter(pk__in=[each.lead_id for each in held]).values_list("pk", "part_id"))
    without = {part_id: _part_without(part_id, membership) for part_id in set(parts.values())}
    going = [each for each in held if without[parts[each.lead_id]]]
    if not going:
        return nothing, len(held)
    end(going, reason=why, by=by, note=reason, turn_back=turn_back, run=run)
    for part_id, part in without.items():
        ids = [each.lead_id for each in going if parts[each.lead_id] == part_id]
        Lead.objects.filter(pk__in=ids).update(status=Lead.Status.WAITING, team_id=team_id, part=part, preferred=None)
    return take_turns_of(team_id=team_id, lead_ids=[each.lead_id for each in going]), len(held) - len(going)


def _part_without(part_id: int | None, membership: Membership) -> TeamPart | None:
    """The members who may take a lead of this part, without one; None if that leaves nobody in service."""
    others = Membership.objects.filter(team_id=membership.team_id).exclude(pk=membership.pk)
    if part_id is not None:
        others = others.filter(pk__in=TeamPart.objects.values_list("members", flat=True).get(pk=part_id))
    if not others.filter(active=True, rep__retired_at=None).exists():
        return None
    members = sorted(others.values_list("pk", flat=True))
    return TeamPart.objects.get_or_create(team_id=membership.team_id, members=members)[0]


def let_wait(held: Sequence[Assignment], *, by: str, note: str) -> None:
    """Let these leads wait for another turn, and give the turns spent on them back. Call inside a transaction that has
    locked the leads, the turnstiles and the counters.
    """
    end(held, reason=Assignment.EndReason.UNDONE, by=by, note=note, turn_back=True)
    Lead.objects.filter(pk__in=[each.lead_id for each in held]).update(status=Lead.Status.WAITING)


def open_leads(lead_ids: Sequence[int]) -> QuerySet[Lead]:
    """Those of the leads that are open, locked, oldest first."""
    found = Lead.objects.filter(pk__in=lead_ids, status__in=Lead.OPEN).order_by("pk")
    return found.select_for_update(no_key=True)


def lock_counts(rep_ids: set[int]) -> None:
    """Lock the counters that this change will move, in the order in which turns lock theirs."""
    with connection.cursor() as cursor:
        cursor.execute(LOCK_COUNTS, [sorted(rep_ids)])


def end(
    held: Sequence[Assignment], *, reason: str, by: str, note: str, turn_back: bool, run: HandOver | None = None
) -> None:
    """End assignments and lower their reps' open leads. A rep at their cap of them has room again: all their teams are
    swept once this is committed.
    """
    rows = Assignment.objects.filter(pk__in=[each.pk for each in held], ended_at=None)
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone()
    rows.update(ended_at=now, end_reason=reason, ended_by=by, end_note=note, ended_in=run)
    reps = [each.membership.rep_id for each in held]
    for rep_id in sorted(set(reps)):
        counted = RepCount.objects.filter(rep_id=rep_id, kind=RepCount.Kind.OPEN, count__gte=reps.count(rep_id))
        counted.update(count=F("count") - reps.count(rep_id))
    freed = Membership.objects.filter(rep_id__in=reps, rep__open_cap__isnull=False, active=True)
    sweep_when_committed(team_ids=set(freed.values_list("team_id", flat=True)))
    if turn_back:
        give_back(assignments=held, reason=f"{Assignment.EndReason(reason).label}: {note}"[:300], by=by)


def _said(by: str, reason: str) -> tuple[str, str]:
    if not by.strip() or not reason.strip():
        raise NoReason
    return by.strip()[:150], reason.strip()[:300]


# A rep's day in whatever zone is within a day of today's date, a week within eight.
LOCK_COUNTS = """
    SELECT 1 FROM routing_repcount
     WHERE rep_id = ANY (%s) AND (kind = 'open' OR since >= current_date - 9)
     ORDER BY rep_id, kind, since FOR NO KEY UPDATE
"""
