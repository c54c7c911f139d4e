"""Enter leads by their addresses, one open lead to an address, and close them again."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import DateTimeField, F, Func
from django.db.models.functions import Now

from routing.errors import Busy
from routing.models import Assignment, Lead, LeadAddress, Membership, RepCount
from routing.normalise import CleanLead
from routing.placing import INSERT_LEAD, Placing
from routing.turnstiles import sweep_when_committed


@dataclass(frozen=True)
class Entered:
    """A lead as it stands after an event: `new`, or known and merely touched. `rep_name` is None while nobody has
    it.
    """

    new: bool
    lead: int
    uid: uuid.UUID
    team_id: int
    rep_id: int | None = None
    rep_name: str | None = None


def enter(*, lead: CleanLead, event: int, placing: Placing) -> Entered:
    """Enter a lead as waiting, or recognise the open lead that has one of its addresses. Call inside a transaction.

    The partial unique index on open addresses proves that a known address never makes a second open lead, and the lock
    that ON CONFLICT takes on a known one, that its lead is not closed before our commit. Their cost: a request with the
    same address waits for the first one's commit, up to lock_timeout. Addresses are taken in order, so two requests
    with the same two never wait for each other. Raises Busy if the known lead was closed all the same: when another
    touch gave it this address at that very moment.
    """
    values: dict[str, Any] = {
        "kinds": [address.kind for address in lead.addresses],
        "values": [address.value for address in lead.addresses],
        "event": event,
        "email": lead.email,
        "phone": lead.phone,
        "first_name": lead.first_name,
        "last_name": lead.last_name,
        "company": lead.company,
        "country": lead.country,
        "fields": json.dumps(lead.fields),
        **placing.as_values(),
    }
    with connection.cursor() as cursor:
        cursor.execute(INSERT_LEAD, values)
        new_id, uid, team_id = cursor.fetchone()
        if uid is not None:
            return Entered(True, new_id, uid, team_id)
        cursor.execute(TOUCH_LEAD, {**values, "unused": new_id})
        row = cursor.fetchone()
    if row is None:
        raise Busy
    return Entered(False, *row)


def as_it_stands(*, lead_id: int) -> Entered:
    """The lead and the rep who has it now."""
    with connection.cursor() as cursor:
        cursor.execute(HOLDER.format("lead.id = %s"), [lead_id])
        return Entered(False, *cursor.fetchone())


def close(*, lead_ids: Sequence[int], because: str = Assignment.EndReason.CLOSED, by: str = "", note: str = "") -> int:
    """Close those of the leads that are open and return how many: their assignments end, their addresses are free
    again. The assignments keep `because`, who closed them and a note.

    Call inside a transaction. Locks addresses, leads and counters in the order that all keep to. A rep at their
    cap of open leads has room again: their teams are swept once this is committed.
    """
    addresses = LeadAddress.objects.filter(lead_id__in=lead_ids, open=True).order_by("kind", "value")
    list(addresses.select_for_update(no_key=True).values_list("pk", flat=True))
    open_leads = Lead.objects.filter(pk__in=lead_ids, status__in=Lead.OPEN).order_by("pk")
    ids = list(open_leads.select_for_update(no_key=True).values_list("pk", flat=True))
    LeadAddress.objects.filter(lead_id__in=ids, open=True).update(open=False)
    current = Assignment.objects.filter(lead_id__in=ids, ended_at=None)
    reps = list(current.order_by("membership__rep_id").values_list("membership__rep_id", flat=True))
    current.update(ended_at=Now(), end_reason=because, ended_by=by, end_note=note)
    for rep_id in sorted(set(reps)):
        counted = RepCount.objects.filter(rep_id=rep_id, kind=RepCount.Kind.OPEN, count__gte=reps.count(rep_id))
        counted.update(count=F("count") - reps.count(rep_id))
    freed = Membership.objects.filter(rep_id__in=reps, rep__open_cap__isnull=False, active=True)
    sweep_when_committed(team_ids=set(freed.values_list("team_id", flat=True)))
    return Lead.objects.filter(pk__in=ids).update(status=Lead.Status.CLOSED, closed_at=Now(), set_aside_because="")


def mark_worked(*, lead_ids: Sequence[int], by: str) -> int:
    """Note that a person has worked these leads for the first time: called, written, met. Return how many were new.

    One statement; it waits for whoever moves a lead at this moment, and its time is that after the wait.
    """
    found = Lead.objects.filter(pk__in=lead_ids, status__in=Lead.OPEN, first_worked_at=None)
    now = Func(function="clock_timestamp", output_field=DateTimeField())
    return found.update(first_worked_at=now, worked_by=by.strip()[:150] or "somebody")


HOLDER = """
    SELECT lead.id, lead.uid, lead.team_id, rep.id, rep.name
      FROM routing_lead lead
      LEFT JOIN routing_assignment assignment ON assignment.lead_id = lead.id AND assignment.ended_at IS NULL
      LEFT JOIN routing_membership membership ON membership.id = assignment.membership_id
      LEFT JOIN routing_rep rep ON rep.id = membership.rep_id
     WHERE {}
"""

# The open lead of one of the addresses, e-mail before phone; the other addresses, inserted a moment ago, become its
# own.
TOUCH_LEAD = f"""
    WITH known AS (
        SELECT held.lead_id AS id FROM routing_leadaddress held
          JOIN unnest(%(kinds)s::text[], %(values)s::text[]) AS address(kind, value) USING (kind, value)
          JOIN routing_lead lead ON lead.id = held.lead_id
         WHERE held.open AND lead.status <> 'closed'
         ORDER BY held.kind, held.value LIMIT 1),
    moved AS (
        UPDATE routing_leadaddress SET lead_id = known.id FROM known WHERE lead_id = %(unused)s),
    told AS (
        UPDATE routing_inboundevent SET lead_id = known.id, outcome = 'touched' FROM known
         WHERE routing_inboundevent.id = %(event)s)
    {HOLDER.format("lead.id = (SELECT id FROM known)")}
"""
