"""Every promise of routing's tables is kept by the database itself: bad rows are refused by the constraint's name."""

import json

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction

from routing.models import (
    Account,
    AccountDomain,
    Assignment,
    ColumnMap,
    Credit,
    Delivery,
    Fetch,
    HandOver,
    Holiday,
    Import,
    ImportRow,
    InboundEvent,
    LeadAddress,
    RepCount,
    Roster,
    Rule,
    RuleBook,
    Run,
    ServiceBreach,
    Shift,
    TimeOff,
    Turnstile,
    WorkingHours,
)
from tests.make import make_lead, make_source, make_team

NOW = "2026-11-29T10:00:00Z"
UID = "7d9f6f6e-0000-4000-8000-000000000001"

# For each constraint: the table, and what makes a copy of its one good row a bad one. No override: the copy itself is.
BAD: dict[str, tuple[str, list[dict[str, object]]]] = {
    "account_has_a_name": ("account", [{"name": ""}]),
    "account_crm_id_is_a_salesforce_account": ("account", [{"crm_id": "003000000000001"}, {"crm_id": "001"}]),
    "account_domain_once": ("accountdomain", [{}]),
    "account_domain_in_lower_case": ("accountdomain", [{"domain": "Acme.example"}]),
    "hand_over_says_who_and_why": ("handover", [{"by": ""}, {"reason": ""}]),
    "hand_over_undone_by_iff_undone": ("handover", [{"undone_by": "kim"}, {"undone_at": NOW}]),
    "run_says_who": ("run", [{"by": ""}]),
    "run_undone_by_iff_undone": ("run", [{"undone_by": "kim"}, {"undone_at": NOW}]),
    "service_breach_once_per_assignment": ("servicebreach", [{}]),
    "service_breach_outcome_is_known": ("servicebreach", [{"assignment_id": -1, "outcome": "lost"}]),
    "service_breach_minutes_from_1": ("servicebreach", [{"assignment_id": -1, "minutes": 0}]),
    "team_service_minutes_and_since_or_neither": (
        "team",
        [{"name": "B", "service_minutes": 5}, {"name": "B", "service_since": NOW}, {"name": "B", "service_minutes": 0}],
    ),
    "team_when_late_is_alert_or_reassign": ("team", [{"name": "B", "when_late": "shout"}]),
    "team_late_moves_ten_at_most": ("team", [{"name": "B", "late_moves": 11}]),
    "roster_once": ("roster", [{}]),
    "assignment_one_current_per_lead": ("assignment", [{"turn": 2}]),
    "assignment_turn_once_per_team": ("assignment", [{"lead_id": -1}]),
    "assignment_end_reason_iff_ended": (
        "assignment",
        [{"lead_id": -1, "turn": 2, "end_reason": "closed"}, {"lead_id": -1, "turn": 2, "ended_at": NOW}],
    ),
    "assignment_turn_from_1": ("assignment", [{"lead_id": -1, "turn": 0}]),
    "inbound_source_slug_once": ("inboundsource", [{}]),
    "inbound_source_has_a_secret": ("inboundsource", [{"slug": "other", "secret": ""}]),
    "inbound_source_has_a_kind": ("inboundsource", [{"slug": "other", "kind": ""}]),
    "inbound_source_expects_from_1_hour": ("inboundsource", [{"slug": "other", "expects_within_h": 0}]),
    "inbound_source_silent_only_if_expected": ("inboundsource", [{"slug": "other", "silent_since": NOW}]),
    "delivery_verdict_is_known": ("delivery", [{"verdict": "lost"}]),
    "delivery_body_unless_replayed_or_pruned": (
        "delivery",
        [{"verdict": "replayed"}, {"body": None}, {"pruned_at": NOW}],
    ),
    "delivery_names_the_event_iff_one": ("delivery", [{"event_id": ""}, {"events": 2}]),
    "inbound_event_once": ("inboundevent", [{}]),
    "inbound_event_outcome_iff_lead": (
        "inboundevent",
        [
            {"event_id": "other", "outcome": ""},
            {"event_id": "other", "lead_id": None},
            {"event_id": "other", "outcome": "fetching"},
        ],
    ),
    "inbound_event_says_why_it_made_no_lead": (
        "inboundevent",
        [{"event_id": "other", "lead_id": None, "outcome": "refused"}, {"event_id": "other", "because": "it is old"}],
    ),
    "fetch_has_an_id": ("fetch", [{"event_id": -1, "remote_id": ""}]),
    "fetch_trouble_is_known": ("fetch", [{"event_id": -1, "trouble": "luck"}]),
    "fetch_due_only_without_an_answer": ("fetch", [{"event_id": -1, "answer": {}}]),
    "inbound_event_has_an_id": ("inboundevent", [{"event_id": ""}]),
    "lead_worked_by_iff_worked": ("lead", [{"uid": UID, "worked_by": "Kim"}, {"uid": UID, "first_worked_at": NOW}]),
    "lead_status_is_known": ("lead", [{"uid": UID, "status": "lost"}]),
    "lead_closed_at_iff_closed": ("lead", [{"uid": UID, "status": "closed"}, {"uid": UID, "closed_at": NOW}]),
    "lead_set_aside_because_iff_set_aside": (
        "lead",
        [{"uid": UID, "status": "set_aside"}, {"uid": UID, "set_aside_because": "its turn failed"}],
    ),
    "lead_has_an_email_or_a_phone": ("lead", [{"uid": UID, "email": "", "phone": ""}]),
    "lead_first_assigned_at_if_assigned": ("lead", [{"uid": UID, "status": "assigned"}]),
    "lead_address_one_open": ("leadaddress", [{}]),
    "lead_address_has_a_value": ("leadaddress", [{"value": ""}]),
    "lead_address_kind_is_known": ("leadaddress", [{"kind": "fax"}]),
    "team_name_once": ("team", [{}, {"name": "SALES"}]),
    "team_has_a_name": ("team", [{"name": ""}]),
    "team_outside_hours_is_wait_or_ignore": ("team", [{"name": "Other", "outside_hours": "perhaps"}]),
    "turnstile_turn_never_negative": ("turnstile", [{"team_id": -1, "turn": -1}]),
    "rep_email_once": ("rep", [{}, {"email": "REP@ROTA.EXAMPLE"}]),
    "rep_has_a_name": ("rep", [{"email": "other@rota.example", "name": ""}]),
    "rep_crm_user_id_is_a_salesforce_user": (
        "rep",
        [
            {"email": "other@rota.example", "crm_user_id": bad}
            for bad in ("001000000000001", "00500000000000", "00500000000000012", "005-00000000001")
        ],
    ),
    "membership_once_per_team_and_rep": ("membership", [{}]),
    "membership_weight_from_1_to_100": ("membership", [{"rep_id": -1, "weight": 0}, {"rep_id": -1, "weight": 101}]),
    "team_part_once": ("teampart", [{}]),
    "team_part_has_a_member": ("teampart", [{"members": []}]),
    "shift_during_is_not_empty": ("shift", [{"during": "empty"}]),
    "shift_during_begins_and_ends": ("shift", [{"during": f"[{NOW},)"}, {"during": f"(,{NOW})"}]),
    "rep_count_once_per_period": ("repcount", [{}]),
    "rep_count_never_negative": ("repcount", [{"rep_id": -1, "count": -1}]),
    "rep_count_kind_is_known": ("repcount", [{"kind": "year"}]),
    "rep_holiday_country_has_two_letters": ("rep", [{"email": "b@rota.example", "holiday_country": "fr"}]),
    "assignment_chosen_by_a_person_has_a_reason": ("assignment", [{"lead_id": -1, "turn": 2, "chosen_by": "kim"}]),
    "credit_moves_something": ("credit", [{"amount": 0}]),
    "credit_has_a_reason_and_a_giver": ("credit", [{"reason": ""}, {"by": ""}]),
    "credit_kind_is_known": ("credit", [{"kind": "gift"}]),
    "working_hours_weekday_from_0_to_6": ("workinghours", [{"weekday": 7}]),
    "working_hours_start_once": ("workinghours", [{}]),
    "holiday_once_a_day": ("holiday", [{}]),
    "holiday_country_has_two_letters": ("holiday", [{"country": "fr"}]),
    "time_off_ends_after_it_begins": ("timeoff", [{"back_on": "2026-12-24"}]),
    "rule_book_one_published": ("rulebook", [{"version": 2}]),
    "rule_book_one_draft": ("rulebook", [{"status": "draft", "version": None, "published_at": None}]),
    "rule_book_version_once": ("rulebook", [{"status": "superseded"}]),
    "rule_book_version_unless_draft": (
        "rulebook",
        [{"version": None}, {"published_at": None}, {"published_by": ""}, {"status": "draft"}],
    ),
    "rule_book_status_is_known": ("rulebook", [{"version": 2, "status": "lost"}]),
    "rule_position_once": ("rule", [{}]),
    "rule_has_a_name": ("rule", [{"name": ""}]),
    "import_status_is_known": ("import", [{"status": "lost"}]),
    "import_one_open_per_file_and_source": ("import", [{}]),
    "import_position_is_the_sum_of_verdicts": ("import", [{"position": 1}]),
    "import_ended_at_iff_ended": ("import", [{"status": "finished"}, {"ended_at": NOW}]),
    "import_leased_iff_claimed": ("import", [{"claim": UID}, {"leased_until": NOW}]),
    "import_undone_by_somebody_after_its_end": (
        "import",
        [
            {"undone_by": "kim"},
            {"undone_at": NOW, "undone_by": "kim"},
            {"status": "finished", "ended_at": NOW, "undone_at": NOW},
        ],
    ),
    "import_row_once": ("importrow", [{}]),
    "import_row_verdict_is_known": ("importrow", [{"verdict": "lost"}]),
    "import_row_lead_unless_rejected_with_a_reason": (
        "importrow",
        [{"lead_id": None}, {"verdict": "rejected", "reason": "why"}, {"verdict": "rejected", "lead_id": None}],
    ),
    "column_map_once_per_header": ("columnmap", [{}]),
    "rule_match_is_all_or_any": ("rule", [{"match": "few"}]),
}


@pytest.fixture
def one_good_row_each(db: None) -> None:
    team = make_team(name="Sales", reps=1)
    member = team.memberships.get()
    type(member.rep).objects.update(email="rep@rota.example")
    account = Account.objects.create(name="Acme")
    AccountDomain.objects.create(account=account, domain="acme.example")
    lead = make_lead(team=team, email="pat@acme.example")
    LeadAddress.objects.create(lead=lead, kind="email", value="pat@acme.example")
    source = make_source(team=team)
    Delivery.objects.create(source=source, request_id="r", event_id="e", verdict="accepted", digest="", body=b"{}")
    event = InboundEvent.objects.create(
        source=source, event_id="e", digest="", lead=lead, outcome="created", payload={}
    )
    Fetch.objects.create(event=event, remote_id="1", due_at=NOW)
    roster = Roster.objects.create(team=team, digest="d", candidates={}, skipped={})
    turn = Assignment.objects.create(
        lead=lead, membership=member, team=team, turn=1, roster=roster, lag_before=0, lag_after=0, assigned_at=NOW
    )
    HandOver.objects.create(membership=member, by="kim", reason="ill")
    Run.objects.create(by="kim")
    ServiceBreach.objects.create(assignment=turn, lead=lead, minutes=30, outcome="alerted")
    Turnstile.objects.create(team=team, turn=1)
    held = {"digest": "d", "encoding": "utf-8", "delimiter": ",", "header_line": 1, "columns": [], "mapping": []}
    row = Import.objects.create(source=source, file_name="f.csv", received_by="kim", **held)
    ImportRow.objects.create(of=row, number=1, line=2, verdict="created", lead=lead)
    ColumnMap.objects.create(signature="s", mapping=[])
    team.parts.create(members=[member.pk])
    Shift.objects.create(rep=member.rep, during=(NOW, "2026-11-29T18:00:00Z"))
    RepCount.objects.create(rep=member.rep, kind="day", since="2026-11-29", count=1)
    Credit.objects.create(membership=member, kind="manual", amount=1, after_turn=1, reason="make-up", by="kim")
    WorkingHours.objects.create(rep=member.rep, weekday=0, start="09:00", end="17:00")
    Holiday.objects.create(country="FR", day="2026-12-25", name="Noël")
    TimeOff.objects.create(rep=member.rep, first_day="2026-12-24", back_on="2026-12-27")
    book = RuleBook.objects.create(status="published", version=1, published_at=NOW, published_by="kim")
    with connection.cursor() as cursor:  # a trigger keeps published books as they are
        cursor.execute("ALTER TABLE routing_rule DISABLE TRIGGER USER")
    Rule.objects.create(book=book, position=1, name="All", team=team)


@pytest.mark.parametrize("name", BAD)
def test_the_database_refuses_the_bad_row_by_name(one_good_row_each, name):
    table, cases = BAD[name]
    for overrides in cases:
        key = {} if table in ("turnstile", "fetch") else {"id": 10**9}
        with pytest.raises(IntegrityError) as refusal, transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO routing_{table} SELECT (jsonb_populate_record(good, %s)).* FROM routing_{table} good",
                [json.dumps({**key, **overrides})],
            )
            if name == "rule_book_one_draft":  # the first draft is a good row, the second is not
                cursor.execute(
                    "INSERT INTO routing_rulebook SELECT (jsonb_populate_record(good, '{\"id\": 7}')).*"
                    " FROM routing_rulebook good WHERE status = 'draft'"
                )
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert refusal.value.__cause__.diag.constraint_name == name, overrides


def test_every_named_constraint_of_routing_has_its_bad_row_here():
    models = apps.get_app_config("routing").get_models()
    assert sorted(BAD) == sorted(constraint.name for model in models for constraint in model._meta.constraints)


def test_closed_leads_may_share_an_address(one_good_row_each):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE routing_leadaddress SET open = false")
        cursor.execute(
            "INSERT INTO routing_leadaddress SELECT (jsonb_populate_record(good, '{\"id\": 7000000000}')).*"
            " FROM routing_leadaddress good"
        )
    assert LeadAddress.objects.count() == 2
