"""Sent mails are logged in the CRM: one completed task for each, on the lead's record, and none for what did not go."""

import datetime as dt
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction

from crmsync import outbox
from crmsync.gateway import connect
from crmsync.models import BulkJob, CrmRecord, FieldMapping, OutboxMessage
from crmsync.moves.retry import retry_dead
from outreach.flows.launching import launch
from outreach.flows.reaping import reap_all
from outreach.flows.sender import send_due
from outreach.mail.reports import Report
from outreach.models import Campaign, Enrolment, Message, ProviderEvent, SendAttempt
from outreach.moves.doubt import it_went
from outreach.moves.feedback import take_in
from outreach.moves.settling import settle
from routing import members
from routing.models import Assignment, Lead
from routing.turns import take_turns
from tests.crmsync.rows import drain
from tests.crmsync.sandbox_org import SandboxOrg
from tests.make import make_lead, make_rep, make_team
from tests.outreach.make import ACCEPTED, SILENCE, make_begun, make_campaign, make_step, switched_on
from tests.outreach.relays import DROP, scripted, sink
from tests.outreach.test_sender import relay_at

pytestmark = pytest.mark.django_db(transaction=True)


def owned_leads(count: int, *, crm_user_id: str = "", **fields: Any) -> list[Lead]:
    """Leads that a rep has, whose own records are on their way to the CRM."""
    team = make_team()
    with transaction.atomic():
        members.add_member(team=team, rep=make_rep(crm_user_id=crm_user_id), weight=1)
    made = [make_lead(team=team, first_name="Ann", last_name="Lee", company="Acme", **fields) for _ in range(count)]
    take_turns(team_id=team.pk, most=1_000)
    assert Assignment.objects.current().filter(lead__in=made).count() == count
    return made


def launched(leads: list[Lead], *, steps: int = 1, **fields: Any) -> Campaign:
    switched_on()
    campaign = make_campaign(steps=steps, **{"logs_activities": True, **fields})
    launch(campaign_id=campaign.pk, leads=[lead.pk for lead in leads], by="test")
    return campaign


def mail_all(settings: Any, relay: AbstractContextManager[Any]) -> None:
    with relay as at:
        relay_at(settings, at.port)
        send_due(worker="w1")


def tasks(org: SandboxOrg) -> list[dict[str, Any]]:
    return org.records("Task")


def planned() -> list[OutboxMessage]:
    return list(OutboxMessage.objects.filter(record__object="Task").order_by("pk"))


def user() -> str:
    return str(connect().query("SELECT Id FROM User WHERE IsActive = true ORDER BY Id")[1]["Id"])


def record_of(lead: Lead) -> CrmRecord:
    return CrmRecord.objects.get(object="Lead", external_id=str(lead.uid))


def test_each_sent_mail_is_one_completed_task_on_the_leads_record_in_the_reps_hand(
    org: SandboxOrg, settings: Any, tmp_path: Path
) -> None:
    rep = user()
    leads = owned_leads(3, crm_user_id=rep)
    switched_on()
    campaign = make_campaign(steps=0, name="Spring", logs_activities=True, zone="Asia/Tokyo")
    make_step(campaign, subject="Hello {{ lead.first_name }}")
    make_step(campaign, order=2, subject="Once more")
    launch(campaign_id=campaign.pk, leads=[lead.pk for lead in leads], by="test")
    mail_all(settings, sink(tmp_path))
    assert Message.objects.filter(status="sent").count() == 6
    drain()
    made = tasks(org)
    assert len(made) == 6
    for lead in leads:
        mine = sorted((one for one in made if one["WhoId"] == record_of(lead).crm_id), key=lambda one: one["Subject"])
        assert [one["Subject"] for one in mine] == ["Email: Hello Ann", "Email: Once more"]
        assert mine[0]["Description"] == f'Mail 1 of the campaign "Spring", sent to {lead.email}.'
    today = dt.datetime.now(ZoneInfo("Asia/Tokyo")).date()
    for one in made:
        assert (one["Status"], one["Type"], one["OwnerId"]) == ("Completed", "Email", rep)
        assert dt.date.fromisoformat(one["ActivityDate"]) in (today, today - dt.timedelta(days=1))
    assert all(message.priority == outbox.Priority.MASS for message in planned())


def test_a_campaign_logs_nothing_unless_it_says_so(settings: Any, tmp_path: Path) -> None:
    launched(owned_leads(2), logs_activities=False)
    assert not Campaign._meta.get_field("logs_activities").default
    mail_all(settings, sink(tmp_path))
    assert Message.objects.filter(status="sent").count() == 2
    assert planned() == []
    assert set(SendAttempt.objects.values_list("subject", "activity_owed")) == {("", False)}


def test_a_mail_without_a_reps_crm_user_is_logged_in_the_hand_of_rotas_own(
    org: SandboxOrg, settings: Any, tmp_path: Path
) -> None:
    launched(owned_leads(1))
    mail_all(settings, sink(tmp_path))
    drain()
    (task,) = tasks(org)
    (owner,) = connect().query(f"SELECT Username FROM User WHERE Id = '{task['OwnerId']}'")
    assert owner["Username"].startswith("integration")
    assert "owner" not in planned()[0].fields


def test_what_was_refused_or_is_in_doubt_is_no_task(settings: Any) -> None:
    launched(owned_leads(4))
    mail_all(settings, scripted({"dot": ["554 5.6.0 cannot be read", "450 later", DROP, "250 ok"]}))
    assert sorted(Message.objects.values_list("status", flat=True)) == ["due", "failed", "in_doubt", "sent"]
    sent = Message.objects.get(status="sent")
    assert [message.record.external_id.split("-")[1] for message in planned()] == [str(sent.pk)]


def doubtful() -> SendAttempt:
    held, begun = make_begun(logs_activities=True)
    Lead.objects.update(first_assigned_at=dt.datetime.now(dt.UTC))
    settle(attempt_id=begun.pk, outcome=SILENCE, worker="w1", token=held.token)
    assert planned() == []
    return begun


def test_a_mail_in_doubt_is_logged_when_a_person_says_it_went_with_the_day_it_left() -> None:
    begun = doubtful()
    left = begun.begun_at - dt.timedelta(days=3)
    SendAttempt.objects.filter(pk=begun.pk).update(begun_at=left)
    it_went(attempt_id=begun.pk, by="Pat")
    (message,) = planned()
    assert message.fields["due_on"] == left.date().isoformat()


def test_a_mail_in_doubt_is_logged_when_a_report_says_it_went() -> None:
    begun = doubtful()
    when = dt.datetime.now(dt.UTC)
    take_in(Report("mail events", "1", ProviderEvent.Kind.DELIVERED, mail_id=begun.mail_id, occurred_at=when))
    assert len(planned()) == 1


def test_who_says_again_that_it_went_makes_no_second_task() -> None:
    held, begun = make_begun(logs_activities=True)
    Lead.objects.update(first_assigned_at=dt.datetime.now(dt.UTC))
    assert settle(attempt_id=begun.pk, outcome=ACCEPTED, worker="w1", token=held.token)
    assert not settle(attempt_id=begun.pk, outcome=ACCEPTED, worker="w1", token=held.token)
    assert not settle(attempt_id=begun.pk, outcome=ACCEPTED, worker="provider")
    reap_all()
    assert len(planned()) == 1
    assert CrmRecord.objects.filter(object="Task").count() == 1
    with connection.cursor() as cursor:  # past the ledger: still the same task, in a newer version
        cursor.execute("SELECT outreach_log_activity(%s)", [begun.pk])
    assert CrmRecord.objects.get(object="Task").version == 2


def test_the_task_is_in_the_outbox_when_the_mail_is_settled_and_not_before() -> None:
    held, begun = make_begun(logs_activities=True)
    Lead.objects.update(first_assigned_at=dt.datetime.now(dt.UTC))
    with undone():
        connection.cursor().execute("SELECT outreach_log_activity(%s)", [begun.pk])
        assert len(planned()) == 1
    assert planned() == []
    settle(attempt_id=begun.pk, outcome=ACCEPTED, worker="w1", token=held.token)
    assert (len(planned()), Message.objects.get().status) == (1, "sent")


@contextmanager
def undone() -> Any:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.mark.parametrize("kind", ["commit_then_close", "close_before"])
def test_a_task_whose_answer_was_lost_is_sent_again_and_is_one(
    org: SandboxOrg, settings: Any, tmp_path: Path, kind: str
) -> None:
    launched(owned_leads(2))
    drain()  # the leads
    mail_all(settings, sink(tmp_path))
    org.fault(kind, path="Task")
    drain()
    assert len(tasks(org)) == 2
    assert {message.status for message in planned()} == {"delivered"}
    assert max(message.attempts for message in planned()) > 1


def test_a_task_waits_for_its_lead_and_then_lands(org: SandboxOrg, settings: Any, tmp_path: Path) -> None:
    (lead,) = owned_leads(1)
    launched([lead])
    mail_all(settings, sink(tmp_path))
    later = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
    OutboxMessage.objects.filter(record__object="Lead").update(due_at=later)
    drain()
    (task,) = tasks(org)
    assert task["WhoId"] == record_of(lead).crm_id
    assert planned()[0].attempts == 1, "it waited; it was not refused"


def test_a_task_whose_lead_never_arrived_says_so_and_can_be_retried_once_it_has(
    org: SandboxOrg, settings: Any, tmp_path: Path
) -> None:
    (lead,) = owned_leads(1)
    launched([lead])
    mail_all(settings, sink(tmp_path))
    rule = {"kind": "validation_rule", "object": "Lead", "name": "No", "field": "Company", "value": "Acme"}
    org.ask("POST", "automation", {**rule, "message": "no"})
    drain()
    (task,) = planned()
    dead = OutboxMessage.objects.get(record__object="Lead", status="dead")
    assert (task.status, task.failure_kind, task.failure_code) == ("dead", "dependency", "NO_PARENT")
    assert (task.failure_field, str(lead.uid) in task.failure_text) == ("WhoId", True)
    assert tasks(org) == []
    org.ask("DELETE", "automation")
    retry_dead(message_ids=[task.pk], by="Pat", reason="first the child, by mistake")
    retry_dead(message_ids=[dead.pk], by="Pat", reason="the rule is gone")
    drain()
    assert [one["WhoId"] for one in tasks(org)] == [record_of(lead).crm_id]


def test_a_mail_to_a_lead_that_waits_for_a_rep_is_logged_once_it_has_one(
    org: SandboxOrg, settings: Any, tmp_path: Path
) -> None:
    team = make_team()
    lead = make_lead(team=team, first_name="Ann", last_name="Lee", company="Acme")
    launched([lead])
    mail_all(settings, sink(tmp_path))
    assert reap_all().logged == 0
    assert planned() == [] and SendAttempt.objects.get().activity_owed
    with transaction.atomic():
        members.add_member(team=team, rep=make_rep(), weight=1)
    take_turns(team_id=team.pk, most=10)
    assert (reap_all().logged, reap_all().logged) == (1, 0)
    drain()
    assert [one["WhoId"] for one in tasks(org)] == [record_of(lead).crm_id]
    assert not SendAttempt.objects.filter(activity_owed=True).exists()


def test_a_lead_that_the_org_knows_as_a_contact_has_the_task_there(
    org: SandboxOrg, settings: Any, tmp_path: Path
) -> None:
    call = connect().call
    account = call("POST", "sobjects/Account", {"Name": "Acme"}, {})["id"]
    (lead,) = owned_leads(1)
    contact = {"LastName": "Lee", "Email": lead.email, "AccountId": account}
    contact_id = call("POST", "sobjects/Contact", contact, {})["id"]
    launched([lead])
    mail_all(settings, sink(tmp_path))
    drain()
    assert record_of(lead).written_as == "Contact"
    assert [one["WhoId"] for one in tasks(org)] == [contact_id]


def test_a_lead_that_was_converted_meanwhile_has_the_task_at_the_contact_it_became(
    org: SandboxOrg, settings: Any, tmp_path: Path
) -> None:
    (lead,) = owned_leads(1)
    campaign = launched([lead], steps=2)
    drain()  # the lead is in the org
    contact_id = connect().call("POST", "sobjects/Contact", {"LastName": "Lee"}, {})["id"]
    org.ask("POST", "convert", {"lead": record_of(lead).crm_id, "contact": contact_id})
    mail_all(settings, sink(tmp_path))
    drain()
    assert [one["WhoId"] for one in tasks(org)] == [contact_id, contact_id]
    assert campaign.enrolments.get().end_reason == Enrolment.EndReason.COMPLETED


def test_people_say_where_the_fields_of_a_mail_go(org: SandboxOrg, settings: Any, tmp_path: Path) -> None:
    FieldMapping.objects.create(object="Task", ours="campaign", theirs="Description")
    FieldMapping.objects.create(object="Task", ours="description", theirs="")
    FieldMapping.objects.create(object="Task", ours="kind", theirs="")
    launched(owned_leads(1), name="Autumn")
    mail_all(settings, sink(tmp_path))
    drain()
    (task,) = tasks(org)
    assert (task["Description"], task["Type"], task["Status"]) == ("Autumn", None, "Completed")


def test_a_minutes_tasks_leave_in_one_call_and_lock_no_lead(org: SandboxOrg, settings: Any, tmp_path: Path) -> None:
    launched(owned_leads(20))
    drain()
    mail_all(settings, sink(tmp_path))
    before = len(org.journal())
    drain()
    (entry,) = org.journal()[before:]
    assert not [lock for lock in entry["locks"] if lock.startswith("00Q")], "a completed task locks nobody"
    assert len(tasks(org)) == 20


def test_many_tasks_go_by_a_bulk_job(org: SandboxOrg, settings: Any, tmp_path: Path) -> None:
    settings.CRM_ROADS = {"Task": "bulk2"}
    leads = owned_leads(30)
    launched(leads)
    mail_all(settings, sink(tmp_path))
    drain()
    assert {task["WhoId"] for task in tasks(org)} == {record_of(lead).crm_id for lead in leads}
    assert len(tasks(org)) == 30
    assert set(BulkJob.objects.values_list("object", flat=True)) == {"Task"}
