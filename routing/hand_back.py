"""Take a hand-over back: its leads return to the rep who had them, as far as nothing has happened to them since."""

from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from crmsync.nudge import nudge
from routing.choice import choose
from routing.credits import give_back
from routing.errors import HasLeft, NotUndone
from routing.models import Assignment, HandOver, Lead, Membership, TeamPart
from routing.reassign import end, lock_counts, open_leads
from routing.turnstiles import hold_turnstiles

UNDO_H = 24
"""Hours within which a hand-over can be taken back: after that the others have got to know the leads."""


@dataclass(frozen=True)
class HandedBack:
    """Leads that returned, and those left where they are: closed, worked, or moved by a person since."""

    returned: int = 0
    left: int = 0


def undo(*, hand_over_id: int, by: str) -> HandedBack:
    """Take a hand-over back, once. The others get their turns for these leads back. Opens a transaction.

    Each returned lead is a person's choice from then on. Raises NotUndone when it was taken back before or is too old,
    HasLeft where the rep is out of service.
    """
    with transaction.atomic(durable=True):
        run = HandOver.objects.select_for_update(no_key=True).select_related("membership__rep").get(pk=hand_over_id)
        if run.undone_at or run.made_at < timezone.now() - timedelta(hours=UNDO_H):
            raise NotUndone
        if run.membership.rep.retired_at:
            raise HasLeft
        ended = {a.lead_id: a for a in Assignment.objects.filter(ended_in=run).select_related("membership", "roster")}
        leads = {lead.pk: lead for lead in open_leads(sorted(ended))}
        since = Assignment.objects.filter(lead__in=leads, pk__gt=min((a.pk for a in ended.values()), default=0))
        later: dict[int, list[Assignment]] = {pk: [] for pk in leads}
        for each in since.select_related("membership", "roster", "team").order_by("pk"):
            if each.pk > ended[each.lead_id].pk:
                later[each.lead_id].append(each)
        free = [pk for pk, lead in leads.items() if untouched(lead, later[pk], run)]
        held = [each for pk in free for each in later[pk]]
        hold_turnstiles(team_ids={run.membership.team_id, *(each.team_id for each in held)})
        lock_counts({run.membership.rep_id, *(each.membership.rep_id for each in held)})
        reason = f"the hand-over was taken back: {run.reason}"[:300]
        if held:
            end(held, reason=Assignment.EndReason.UNDONE, by=by, note=reason, turn_back=True)
        if run.turns_back:
            give_back(assignments=[ended[pk] for pk in free], reason=reason, by=by, again=True)
        chosen = []
        for pk in sorted(free):
            Lead.objects.filter(pk=pk).update(part=part_with(leads[pk].part, run.membership))
            lead = Lead.objects.select_related("part").get(pk=pk)
            chosen.append(choose(lead=lead, membership=run.membership, by=by, reason=reason))
        give_back(assignments=chosen, reason=reason, by=by)  # the turn of before is still counted
        HandOver.objects.filter(pk=run.pk).update(undone_at=Now(), undone_by=by)
    nudge("crm")
    return HandedBack(len(free), len(ended) - len(free))


def untouched(lead: Lead, later: list[Assignment], run: HandOver) -> bool:
    """Whether it waits, or is with the rep to whom a turn gave it, who has not worked it: what an undo may move."""
    worked = lead.first_worked_at is not None and lead.first_worked_at > run.made_at
    if worked or lead.team_id != run.membership.team_id:
        return False
    if not later:
        return lead.status == Lead.Status.WAITING
    return len(later) == 1 and later[0].ended_at is None and not later[0].chosen_by


def part_with(part: TeamPart | None, membership: Membership) -> TeamPart | None:
    """The members who may take the lead, and this one again; None where that is the whole team."""
    if part is None:
        return None
    members = sorted({*part.members, membership.pk})
    if set(Membership.objects.filter(team_id=membership.team_id).values_list("pk", flat=True)) <= set(members):
        return None
    return TeamPart.objects.get_or_create(team_id=membership.team_id, members=members)[0]
