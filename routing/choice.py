"""A person's choice of a rep for a lead, as a turn with a number like any other.

One candidate moves nobody, so by itself a choice is on top of the rep's share; where the team lets direct leads count,
those who are present gain their shares of it, as in any turn. Either way a replay by turn needs no exception.
"""

import json
from typing import Any

from django.db import connection
from django.db.models import F

from crmsync import outbox
from routing.errors import HasLeft
from routing.models import Assignment, Lead, Membership, Rep, Team
from routing.shares import moved


def choose(*, lead: Lead, membership: Membership, by: str, reason: str, tell_the_crm: bool = True) -> Assignment:
    """Assign an open lead, which nobody has now, to a member. Call inside a transaction that has locked the lead, the
    team's turnstile and the rep's counters. `tell_the_crm` is false where it was the CRM that said so.

    Hours, caps and parts do not stand in a person's way; raises HasLeft for a rep or team out of service.
    """
    rep, team = Rep.objects.get(pk=membership.rep_id), Team.objects.get(pk=membership.team_id)
    if rep.retired_at or team.retired_at:
        raise HasLeft
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone()
        cursor.execute(CANDIDATES, {"team": team.pk, "chosen": membership.pk, "now": now})
        rows = cursor.fetchall()
        weights = {member: weight for member, weight, why in rows if why is None}
        skipped = {str(member): why for member, _, why in rows if why is not None}
        cursor.execute(NEXT_TURN, [team.pk])
        (turn,) = cursor.fetchone()
        candidates = {str(member): weight for member, weight in weights.items()}
        values: dict[str, Any] = {"team": team.pk, "candidates": json.dumps(candidates), "skipped": json.dumps(skipped)}
        cursor.execute(ROSTER, values)
        cursor.execute(FIND_ROSTER, values)
        (roster,) = cursor.fetchone()
        cursor.execute(COUNT, {"rep": rep.pk, "now": now})
    before = Membership.objects.values_list("lag", flat=True).get(pk=membership.pk)
    changes = moved(weights=weights, winner=membership.pk)
    for member, change in sorted(changes.items()):
        Membership.objects.filter(pk=member).update(lag=F("lag") + change)
    Membership.objects.filter(pk=membership.pk).update(last_turn=turn)
    stays = lead.part is not None and lead.team_id == team.pk and membership.pk in lead.part.members
    Lead.objects.filter(pk=lead.pk).update(
        status=Lead.Status.ASSIGNED,
        team=team,
        part=lead.part if stays else None,
        preferred=None,
        first_assigned_at=lead.first_assigned_at or now,
        set_aside_because="",
    )
    if tell_the_crm:
        _tell_the_crm(lead, rep)
    return Assignment.objects.create(
        lead=lead,
        membership=membership,
        team=team,
        turn=turn,
        roster_id=roster,
        chosen_by=by,
        note=reason,
        lag_before=before,
        lag_after=before + changes[membership.pk],
        assigned_at=now,
    )


def _tell_the_crm(lead: Lead, rep: Rep) -> None:
    """The owner alone where the CRM knows the lead, which somebody may have edited there; else all of it."""
    fields: dict[str, Any] = {"owner": rep.crm_user_id} if rep.crm_user_id else {}
    if lead.first_assigned_at is None:
        with connection.cursor() as cursor:
            cursor.execute(ALL_OF_IT, [rep.crm_user_id, lead.pk])
            fields = json.loads(cursor.fetchone()[0])
    if fields:
        outbox.enqueue(object="Lead", external_id=str(lead.uid), fields=fields)


def tell_owner(*, lead: Lead) -> None:
    """Tell the CRM who has the lead. Call inside a transaction."""
    current = Assignment.objects.current().filter(lead=lead).select_related("membership__rep").first()
    if current and current.membership.rep.crm_user_id:
        fields = {"owner": current.membership.rep.crm_user_id}
        outbox.enqueue(object="Lead", external_id=str(lead.uid), fields=fields)


ALL_OF_IT = """
    SELECT lead_fields(l, %s, a.crm_id)::text
      FROM routing_lead l LEFT JOIN routing_account a ON a.id = l.account_id WHERE l.id = %s
"""
# The chosen member is a candidate wherever they are; where direct leads count, the others are while present.
CANDIDATES = """
    SELECT m.id, m.weight,
           CASE WHEN m.id = %(chosen)s THEN NULL
                WHEN r.retired_at IS NOT NULL THEN 'retired'
                WHEN NOT t.direct_counts THEN 'another was chosen'
                WHEN t.outside_hours <> 'ignore' THEN off_because(r, %(now)s) END
      FROM routing_membership m JOIN routing_rep r ON r.id = m.rep_id JOIN routing_team t ON t.id = m.team_id
     WHERE m.team_id = %(team)s AND (m.active OR m.id = %(chosen)s)
"""
NEXT_TURN = """
    INSERT INTO routing_turnstile (team_id, turn) VALUES (%s, 1)
    ON CONFLICT (team_id) DO UPDATE SET turn = routing_turnstile.turn + 1 RETURNING turn
"""
# The same digest as in take_turns, so that both share rosters.
ROSTER = """
    INSERT INTO routing_roster (team_id, digest, candidates, skipped)
    SELECT %(team)s, md5(c.value::text || s.value::text), c.value, s.value
      FROM (SELECT %(candidates)s::jsonb AS value) c, (SELECT %(skipped)s::jsonb AS value) s
    ON CONFLICT (team_id, digest) DO NOTHING
"""
FIND_ROSTER = """
    SELECT id FROM routing_roster
     WHERE team_id = %(team)s AND digest = md5((%(candidates)s::jsonb)::text || (%(skipped)s::jsonb)::text)
"""
COUNT = """
    INSERT INTO routing_repcount (rep_id, kind, since, count)
    SELECT r.id, p.kind, p.since, 1 FROM routing_rep r, rep_periods_of(r, %(now)s) p
     WHERE r.id = %(rep)s ORDER BY p.kind
    ON CONFLICT (rep_id, kind, since) DO UPDATE SET count = routing_repcount.count + 1
"""
