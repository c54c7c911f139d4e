"""What the operations staff see of leads, and what they can do to them."""

import json
import re
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from routing import leads, members, turns
from routing.by_hand import assign_now
from routing.intake import accept
from routing.models import Lead, LeadAddress
from tests.make import make_lead, make_payload, make_rep, make_source, make_team
from tests.staff import ask, confirm, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def test_assign_selected_asks_first_and_changes_nothing(staff):
    team = make_team(reps=1)
    lead = make_lead(team=team)

    page = ask(staff, "routing_lead", "assign_selected", lead.pk)

    assert "Assign 1 lead" in page.content.decode()
    assert Lead.objects.get().status == Lead.Status.WAITING


def test_assign_selected_gives_out_these_and_says_how_many_it_skipped(staff):
    team, nobody = make_team(reps=1), make_team()
    older, asked, helpless = make_lead(team=team), make_lead(team=team), make_lead(team=nobody)

    answer = confirm(staff, "routing_lead", "assign_selected", asked.pk, helpless.pk)

    assert said(answer) == ["Assigned 1. Skipped 1 that nobody can take now."]
    assert Lead.objects.get(pk=asked.pk).status == Lead.Status.ASSIGNED
    assert Lead.objects.get(pk=older.pk).status == Lead.Status.WAITING


def test_the_button_pressed_twice_assigns_once(staff):
    lead = make_lead(team=make_team(reps=2))
    confirm(staff, "routing_lead", "assign_selected", lead.pk)

    answer = confirm(staff, "routing_lead", "assign_selected", lead.pk)

    assert said(answer) == ["Assigned 0. Skipped 1 that nobody can take now."]
    assert lead.assignments.count() == 1


def test_close_selected_ends_assignments_and_counts_the_closed_ones(staff):
    team = make_team(reps=1)
    one, two = make_lead(team=team), make_lead(team=team)
    assign_now(lead_ids=[one.pk])
    with transaction.atomic():
        leads.close(lead_ids=[two.pk])

    answer = confirm(staff, "routing_lead", "close_selected", one.pk, two.pk)

    assert said(answer) == ["Closed 1. Skipped 1 already closed."]
    assert "Closed 1." in staff.get(reverse("admin:routing_lead_history", args=[one.pk])).content.decode()
    assert one.assignments.get().ended_at is not None


def test_put_back_lets_a_lead_that_was_set_aside_wait_again(staff):
    team = make_team(reps=1)
    aside, waiting = make_lead(team=team), make_lead(team=team)
    turns.set_aside(lead_id=aside.pk, because="its turn failed")

    answer = confirm(staff, "routing_lead", "put_back", aside.pk, waiting.pk)

    assert said(answer) == ["Put back 1. Skipped 1 not set aside."]
    lead = Lead.objects.get(pk=aside.pk)
    assert (lead.status, lead.set_aside_because) == (Lead.Status.WAITING, "")


@pytest.mark.parametrize("action", ["assign_selected", "close_selected", "put_back"])
def test_who_may_only_look_may_not_act(action):
    lead = make_lead(team=make_team(reps=1))
    looker = logged_in(may=("view_lead",))

    page = looker.get(listed("routing_lead")).content.decode()
    confirm(looker, "routing_lead", action, lead.pk)

    assert f'value="{action}"' not in page
    assert Lead.objects.get().status == Lead.Status.WAITING


def test_an_action_asked_for_with_get_does_nothing(staff):
    lead = make_lead(team=make_team(reps=1))

    staff.get(listed("routing_lead"), {"action": "assign_selected", "_selected_action": lead.pk, "confirmed": "yes"})

    assert Lead.objects.get().status == Lead.Status.WAITING


def test_the_lead_page_says_why_this_rep():
    """Candidates with weights, who was skipped and why, lag before and after, and how it came to the team."""
    team = make_team(outside_hours="wait")
    now = timezone.now()
    with transaction.atomic():
        ada, grace, absent = (
            members.add_member(team=team, rep=make_rep(name=name), weight=weight)
            for name, weight in (("Ada", 2), ("Grace", 1), ("Lin", 1))
        )
        for member in (ada, grace):
            members.set_shifts(rep=member.rep, ranges=[(now - timedelta(hours=1), now + timedelta(hours=1))])
    source = make_source(team=team, slug="website")
    payload = make_payload()
    accepted = accept(source=source, event_id="e1", body=json.dumps(payload).encode(), payload=payload, request_id="r")
    lead = Lead.objects.get(uid=accepted.lead)
    assign_now(lead_ids=[lead.pk])  # its own turn needs autocommit, which a test that rolls back does not have
    client = logged_in(may=("view_lead", "view_outboxmessage"))

    page = re.sub(r"\s+", " ", client.get(page_of("routing_lead", lead.pk)).content.decode())

    assert "Of 2 candidates it was Ada&#x27;s turn: on their share before it, 0.33 leads ahead of their share" in page
    assert "due 67% of this lead" in page
    assert re.search(r"Lin</th><td></td><td><span class=\"state closed\">skipped</span> off hours", page)
    assert "leads of source website go to team" in page
    assert "Made a new lead" in page
    assert "What the CRM got" in page
    assert "version 1" in page


def test_a_waiting_lead_says_who_could_take_it(staff):
    team = make_team(reps=1, outside_hours="wait")
    lead = make_lead(team=team)

    page = staff.get(page_of("routing_lead", lead.pk)).content.decode()

    assert "Who could take it now" in page
    assert "off hours" in page


@pytest.mark.parametrize("term", ["EMAIL", "email, other case", "phone", "uid", "pk", "last name", "@domain"])
def test_a_lead_is_found_by_what_a_person_types(staff, term):
    team = make_team()
    lead = make_lead(team=team, email="Ada@acme.example", phone="+33142685300", last_name="Lovelace")
    LeadAddress.objects.create(lead=lead, kind="email", value="ada@acme.example")
    LeadAddress.objects.create(lead=lead, kind="phone", value="+33142685300")
    other = make_lead(team=team, email="grace@other.example", last_name="Hopper")
    typed = {
        "EMAIL": "Ada@acme.example",
        "email, other case": " ADA@ACME.example ",
        "phone": "+33 1 42 68 53 00",
        "uid": str(lead.uid),
        "pk": f"#{lead.pk}",
        "last name": "lovel",
        "@domain": "@acme.example",
    }[term]

    found = staff.get(listed("routing_lead"), {"q": typed}).context["cl"].result_list

    assert list(found) == [lead]
    assert other not in found


def test_twenty_thousand_leads_take_few_questions_and_an_index(staff):
    team = make_team(reps=1)
    make_lead(team=team)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO routing_lead (team_id, email, status, closed_at) "
            "SELECT %s, n || '@acme.example', 'closed', now() FROM generate_series(1, 20000) AS n",
            [team.pk],
        )
        cursor.execute("ANALYZE routing_lead")
    staff.get(listed("routing_lead"))

    with CaptureQueriesContext(connection) as asked:
        page = staff.get(listed("routing_lead"), {"status": "closed"})

    assert page.context["cl"].paginator.counted == "10,000+"
    assert len(page.context["cl"].result_list) == 50
    assert len(asked) <= 16
    assert not [q for q in asked if "DISTINCT" in q["sql"]]
    rows = next(q["sql"] for q in asked if "ORDER BY" in q["sql"] and "LIMIT 50" in q["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {rows}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "lead_by_status" in plan or "routing_lead_pkey" in plan
    assert "Seq Scan on routing_lead" not in plan


def test_the_lead_page_shows_the_conditions_of_the_rule_and_who_was_asked_before_it(staff):
    team = make_team(reps=2)
    checked = [{"field": "country", "operator": "is", "value": "FR", "seen": "FR", "held": True}]
    why = {
        "source": "web",
        "rule": "rule 1 “France” of version 3",
        "version": 3,
        "matched": {"id": 1, "position": 1, "name": "France", "match": "all", "conditions": checked},
        "steps": [{"step": "account owner", "rep": 1, "name": "Ada", "outcome": "takes no leads"}],
    }
    lead = make_lead(team=team, why=why)

    page = re.sub(r"\s+", " ", staff.get(page_of("routing_lead", lead.pk)).content.decode())

    assert "rule 1 “France” of version 3" in page
    assert "Account owner</dt><dd>Ada: takes no leads" in page
    assert "country is FR</th><td>FR</td>" in page
    assert "{&#x27;" not in page
