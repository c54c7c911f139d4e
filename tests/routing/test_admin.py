"""What the operations staff can do to leads, teams, reps and sources, and what they cannot."""

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
from routing.models import InboundSource, Lead, LeadAddress, Membership, Rep, Shift, Team
from tests.make import make_lead, make_member, make_payload, make_rep, make_source, make_team
from tests.staff import logged_in

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def listed(model: str) -> str:
    return reverse(f"admin:routing_{model}_changelist")


def ask(client: Client, model: str, action: str, *pks: int):
    """Choose rows of a list and an action."""
    return client.post(listed(model), {"action": action, "_selected_action": pks, "index": 0})


def confirm(client: Client, model: str, action: str, *pks: int):
    """Press the button of the page that asks."""
    given = {"action": action, "_selected_action": pks[0], "select_across": 1, "confirmed": "yes"}
    return client.post(listed(model), {**given, "chosen": ",".join(map(str, pks))}, follow=True)


def said(answer) -> list[str]:
    return [str(message) for message in answer.context["messages"]]


# ---- leads ----


def test_assign_selected_asks_first_and_changes_nothing(staff):
    team = make_team(reps=1)
    lead = make_lead(team=team)

    page = ask(staff, "lead", "assign_selected", lead.pk)

    assert "Assign 1 lead" in page.content.decode()
    assert Lead.objects.get().status == Lead.Status.WAITING


def test_assign_selected_gives_out_these_and_says_how_many_it_skipped(staff):
    team, nobody = make_team(reps=1), make_team()
    older, asked, helpless = make_lead(team=team), make_lead(team=team), make_lead(team=nobody)

    answer = confirm(staff, "lead", "assign_selected", asked.pk, helpless.pk)

    assert said(answer) == ["Assigned 1. Skipped 1 that nobody can take now."]
    assert Lead.objects.get(pk=asked.pk).status == Lead.Status.ASSIGNED
    assert Lead.objects.get(pk=older.pk).status == Lead.Status.WAITING


def test_the_button_pressed_twice_assigns_once(staff):
    lead = make_lead(team=make_team(reps=2))
    confirm(staff, "lead", "assign_selected", lead.pk)

    answer = confirm(staff, "lead", "assign_selected", lead.pk)

    assert said(answer) == ["Assigned 0. Skipped 1 that nobody can take now."]
    assert lead.assignments.count() == 1


def test_close_selected_ends_assignments_and_counts_the_closed_ones(staff):
    team = make_team(reps=1)
    one, two = make_lead(team=team), make_lead(team=team)
    assign_now(lead_ids=[one.pk])
    with transaction.atomic():
        leads.close(lead_ids=[two.pk])

    answer = confirm(staff, "lead", "close_selected", one.pk, two.pk)

    assert said(answer) == ["Closed 1. Skipped 1 already closed."]
    assert one.assignments.get().ended_at is not None


def test_put_back_lets_a_lead_that_was_set_aside_wait_again(staff):
    team = make_team(reps=1)
    aside, waiting = make_lead(team=team), make_lead(team=team)
    turns.set_aside(lead_id=aside.pk, because="its turn failed")

    answer = confirm(staff, "lead", "put_back", aside.pk, waiting.pk)

    assert said(answer) == ["Put back 1. Skipped 1 not set aside."]
    lead = Lead.objects.get(pk=aside.pk)
    assert (lead.status, lead.set_aside_because) == (Lead.Status.WAITING, "")


@pytest.mark.parametrize("action", ["assign_selected", "close_selected", "put_back"])
def test_who_may_only_look_may_not_act(action):
    lead = make_lead(team=make_team(reps=1))
    looker = logged_in(may=("view_lead",))

    page = looker.get(listed("lead")).content.decode()
    confirm(looker, "lead", action, lead.pk)

    assert f'value="{action}"' not in page
    assert Lead.objects.get().status == Lead.Status.WAITING


def test_an_action_asked_for_with_get_does_nothing(staff):
    lead = make_lead(team=make_team(reps=1))

    staff.get(listed("lead"), {"action": "assign_selected", "_selected_action": lead.pk, "confirmed": "yes"})

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
    client = logged_in(may=("view_lead", "view_outboxmessage"))

    page = re.sub(r"\s+", " ", client.get(reverse("admin:routing_lead_change", args=[lead.pk])).content.decode())

    assert accepted.rep_name == "Ada"
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

    page = staff.get(reverse("admin:routing_lead_change", args=[lead.pk])).content.decode()

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

    found = staff.get(listed("lead"), {"q": typed}).context["cl"].result_list

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
    staff.get(listed("lead"))

    with CaptureQueriesContext(connection) as asked:
        page = staff.get(listed("lead"), {"status": "closed"})

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


# ---- facts ----


@pytest.mark.parametrize("model", ["lead", "assignment", "inboundevent", "delivery"])
def test_facts_cannot_be_added_changed_or_deleted(staff, model):
    assert staff.get(reverse(f"admin:routing_{model}_add")).status_code == 403
    assert "delete_selected" not in staff.get(listed(model)).content.decode()


@pytest.mark.parametrize("model", ["team", "rep", "membership", "inboundsource"])
def test_what_was_used_is_retired_and_not_deleted(staff, model):
    member = make_member(team=make_team())
    make_source(team=member.team)
    row = {"team": member.team, "rep": member.rep, "membership": member}.get(model) or InboundSource.objects.get()

    assert staff.post(reverse(f"admin:routing_{model}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403


# ---- who takes turns ----


def hands_on(client: Client, path: str, given: dict[str, object]):
    answer = client.post(path, given, follow=True)
    assert not answer.context.get("errors"), answer.context["errors"]
    return answer


def turnstiles_taken(asked: CaptureQueriesContext) -> int:
    return len([q for q in asked if "pg_advisory_xact_lock(turnstile_key" in q["sql"]])


def test_a_new_membership_goes_through_the_turnstile(staff):
    team, rep = make_team(), make_rep()

    with CaptureQueriesContext(connection) as asked:
        hands_on(staff, reverse("admin:routing_membership_add"), {"team": team.pk, "rep": rep.pk, "weight": 3})

    assert Membership.objects.get().weight == 3
    assert turnstiles_taken(asked) == 1


def test_a_changed_weight_goes_through_the_turnstile(staff):
    member = make_member(team=make_team())

    with CaptureQueriesContext(connection) as asked:
        hands_on(staff, reverse("admin:routing_membership_change", args=[member.pk]), {"weight": 7})

    assert Membership.objects.get().weight == 7
    assert turnstiles_taken(asked) == 1


def test_a_membership_saved_unchanged_takes_no_turnstile(staff):
    member = make_member(team=make_team())

    with CaptureQueriesContext(connection) as asked:
        hands_on(staff, reverse("admin:routing_membership_change", args=[member.pk]), {"weight": 1})

    assert turnstiles_taken(asked) == 0


def test_a_cap_set_by_form_counts_what_the_rep_was_given_today(staff):
    team = make_team(reps=1)
    rep = Rep.objects.get()
    assign_now(lead_ids=[make_lead(team=team).pk])
    given = {"name": rep.name, "email": rep.email, "crm_user_id": "", "zone": "Europe/Paris", "day_cap": 1}

    hands_on(staff, reverse("admin:routing_rep_change", args=[rep.pk]), given)
    assign_now(lead_ids=[make_lead(team=team).pk])

    assert Lead.objects.waiting().count() == 1
    assert rep.counts.get().count == 1


def test_outside_hours_and_name_of_a_team_are_changed_by_form(staff):
    team = make_team()

    with CaptureQueriesContext(connection) as asked:
        hands_on(
            staff, reverse("admin:routing_team_change", args=[team.pk]), {"name": "Renamed", "outside_hours": "wait"}
        )

    team.refresh_from_db()
    assert (team.name, team.outside_hours) == ("Renamed", "wait")
    assert turnstiles_taken(asked) == 1


def test_retiring_a_team_asks_and_then_counts(staff):
    team = make_team()

    page = ask(staff, "team", "retire_selected", team.pk)
    answer = confirm(staff, "team", "retire_selected", team.pk)

    assert "cannot be undone" in page.content.decode()
    assert said(answer) == ["Retired 1."]
    assert Team.objects.get().retired_at is not None


def test_a_rep_taken_out_of_turns_gets_nothing_until_let_in_again(staff):
    team = make_team(reps=1)
    member = Membership.objects.get()
    confirm(staff, "membership", "take_out", member.pk)
    assign_now(lead_ids=[make_lead(team=team).pk])
    assert Lead.objects.waiting().count() == 1

    answer = confirm(staff, "membership", "let_take_part", member.pk)

    assert said(answer) == ["Changed 1."]
    assert Membership.objects.get().active


def test_one_form_makes_a_row_of_shifts_on_the_reps_own_clock(staff):
    rep = make_rep(zone="Europe/Paris")
    given = {
        "rep": rep.pk,
        "first": "2026-03-23",
        "last": "2026-04-03",
        "begins": "09:00",
        "ends": "17:00",
        "again": "weekdays",
    }

    answer = hands_on(staff, reverse("admin:routing_shift_add"), given)

    hours = [shift.during.lower.hour for shift in Shift.objects.order_by("during")]
    assert hours == [8] * 5 + [7] * 5, "summer time begins on the Sunday between"
    assert said(answer)[0].startswith("Added 10 shifts")


def test_shifts_are_removed_after_asking(staff):
    rep = make_rep()
    now = timezone.now()
    with transaction.atomic():
        members.set_shifts(rep=rep, ranges=[(now, now + timedelta(hours=1))])

    answer = confirm(staff, "shift", "remove_selected", Shift.objects.get().pk)

    assert said(answer) == ["Removed 1."]
    assert not Shift.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_changed_weight_waits_for_the_turnstile_and_says_so_where_it_stays_busy(staff):
    member = make_member(team=make_team())
    holder = connection.copy()
    holder.set_autocommit(False)
    try:
        with holder.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [member.team_id])
        answer = staff.post(
            reverse("admin:routing_membership_change", args=[member.pk]), {"weight": 9, "_save": ""}, follow=True
        )
    finally:
        holder.rollback()
        holder.close()

    assert said(answer) == [
        "Leads are being given out in this team right now. Nothing was changed; try again in a moment."
    ]
    assert Membership.objects.get().weight == 1


# ---- sources ----


def test_a_new_source_gets_an_address_and_a_secret(staff):
    team = make_team()

    hands_on(
        staff,
        reverse("admin:routing_inboundsource_add"),
        {"name": "Web", "slug": "web", "team": team.pk, "active": "on"},
    )

    source = InboundSource.objects.get()
    page = staff.get(reverse("admin:routing_inboundsource_change", args=[source.pk])).content.decode()
    assert source.secret.startswith("whsec_")
    assert "http://testserver/in/web" in page
    assert source.secret in page


def test_who_may_only_look_at_a_source_does_not_see_its_secret():
    source = make_source()
    looker = logged_in(may=("view_inboundsource",))

    page = looker.get(reverse("admin:routing_inboundsource_change", args=[source.pk])).content.decode()

    assert source.secret not in page
    assert "/in/" in page


def test_rotating_keeps_the_old_secret_good_until_it_is_dropped(staff):
    source = make_source()

    rotated = confirm(staff, "inboundsource", "rotate_secret", source.pk)
    after = InboundSource.objects.get()
    dropped = confirm(staff, "inboundsource", "drop_previous_secret", source.pk)

    assert (said(rotated), said(dropped)) == (["Rotated 1."], ["Dropped 1."])
    assert after.previous_secret == source.secret
    assert after.secret != source.secret
    assert InboundSource.objects.get().previous_secret == ""


def test_saving_a_source_leaves_its_secrets_alone(staff):
    source = make_source()
    given = {"name": "Other", "slug": source.slug, "team": source.team_id}

    hands_on(staff, reverse("admin:routing_inboundsource_change", args=[source.pk]), given)

    changed = InboundSource.objects.get()
    assert (changed.name, changed.active, changed.secret) == ("Other", False, source.secret)
