"""Take one lead in for rehearsal before the first real one comes, so that no sender waits while a program warms up.

Postgres plans the statements of a turn once a connection, and a process reads its tables of phone numbers and countries
once. A rehearsal goes the whole way of a lead, from the payload to the turn, in one transaction that is rolled back: it
leaves nothing but gaps in the numbering of rows.
"""

import uuid

from django.db import transaction

from routing.events import record
from routing.leads import enter
from routing.models import InboundSource, Membership, Rep, Team
from routing.normalise import clean_lead
from routing.placing import place
from routing.turns import take_turns_of

PAYLOAD = {"email": "rehearsal@rota.example", "phone": "+33 1 23 45 67 89", "country": "France", "company": "Rota"}


def rehearse() -> None:
    """Take a lead in and its turn, on this connection, and roll everything back."""
    name = f"rehearsal-{uuid.uuid4().hex[:12]}"
    with transaction.atomic(durable=True):
        team = Team.objects.create(name=name, outside_hours=Team.OutsideHours.IGNORE)
        rep = Rep.objects.create(name=name, email=f"{name}@rota.example")
        Membership.objects.create(team=team, rep=rep)
        source = InboundSource.objects.create(slug=name, name=name, team=team)
        lead = clean_lead({**PAYLOAD, "email": f"{name}@rota.example"})
        recorded = record(source_id=source.pk, event_id=name, body=b"{}", payload={}, request_id=name)
        entered = enter(lead=lead, event=recorded.event, placing=place(lead=lead, source=source))
        take_turns_of(team_id=team.pk, lead_ids=[entered.lead])
        transaction.set_rollback(True)
