"""Closing a lead ends its assignment, frees its addresses and the place under the rep's cap."""

import pytest
from django.db import transaction

from routing import members
from routing.leads import close
from routing.models import Assignment, Lead, LeadAddress, Rep, RepCount
from routing.turns import set_aside
from tests.make import make_lead, make_team
from tests.routing.rows import give

pytestmark = pytest.mark.django_db(transaction=True)


def close_all(*lead_ids: int) -> int:
    with transaction.atomic():
        return close(lead_ids=lead_ids)


def test_closing_ends_the_assignment_with_its_reason_and_keeps_the_fact():
    team = make_team(reps=1)
    give(team, 1)
    lead = Lead.objects.get()
    LeadAddress.objects.create(lead=lead, kind="email", value=lead.email)
    assert close_all(lead.pk) == 1
    lead.refresh_from_db()
    fact = Assignment.objects.get()
    assert lead.status == Lead.Status.CLOSED and lead.closed_at
    assert fact.ended_at and fact.end_reason == Assignment.EndReason.CLOSED
    assert not LeadAddress.objects.get().open


def test_waiting_and_set_aside_leads_can_be_closed_too():
    team = make_team()
    one, other = make_lead(team=team), make_lead(team=team)
    set_aside(lead_id=other.pk, because="its turn failed")
    assert close_all(one.pk, other.pk) == 2
    assert {lead.status for lead in Lead.objects.all()} == {"closed"}


def test_closing_again_or_closing_what_is_not_there_changes_nothing():
    lead = make_lead(team=make_team())
    assert close_all(lead.pk) == 1
    closed_at = Lead.objects.get().closed_at
    assert close_all(lead.pk, lead.pk, 10**12) == 0
    assert close_all() == 0
    assert Lead.objects.get().closed_at == closed_at


def test_closing_frees_as_many_places_as_leads_and_never_more():
    team = make_team(reps=1)
    rep = Rep.objects.get()
    with transaction.atomic():
        members.set_caps(rep=rep, day_cap=9, week_cap=None, open_cap=9, zone="UTC")
    give(team, 3)
    ids = list(Lead.objects.values_list("pk", flat=True))
    assert close_all(*ids[:2]) == 2
    close_all(*ids[:2])
    counts = dict(RepCount.objects.values_list("kind", "count"))
    assert counts == {"open": 1, "day": 3}, "closing a lead does not give the day's place back"
