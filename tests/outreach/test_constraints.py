"""The database refuses what must never be, whoever writes it: one bad row past Python for each constraint."""

import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction

from outreach.models import (
    Agent,
    AgentRequest,
    Campaign,
    CampaignDay,
    Claim,
    Enrolment,
    JobLock,
    LeadClaim,
    LeadHold,
    LeadJob,
    Message,
    Notice,
    NoticeMail,
    OutreachEvent,
    ProviderEvent,
    Recipient,
    SendingState,
    Suppression,
)
from tests.make import make_team
from tests.outreach.make import make_begun, make_campaign, make_leads, make_running
from tests.outreach.test_notices import assigned

pytestmark = pytest.mark.django_db(transaction=True)


def copy(row: models.Model, **changes: Any) -> None:
    """Insert the row once more, under a new id and with these changes."""
    values = {f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields if not f.primary_key}
    type(row)(**{**values, **changes}).save(force_insert=True)


def change(row: models.Model, **changes: Any) -> None:
    type(row)._default_manager.filter(pk=row.pk).update(**changes)


class Rows:
    """One good row of everything, to spoil."""

    def __init__(self) -> None:
        self.held, self.attempt = make_begun(steps=2)
        self.message = Message.objects.get()
        self.campaign = Campaign.objects.get()
        self.draft = make_campaign()
        self.enrolment, self.recipient = Enrolment.objects.get(), Recipient.objects.get()
        self.step, self.claim = self.message.step, Claim.objects.get()
        self.day = CampaignDay.objects.create(campaign=self.campaign, day="2026-01-01")
        self.lock = JobLock.objects.create(name="job")
        self.suppression = Suppression.objects.create(recipient=self.recipient, reason="asked")
        self.event = OutreachEvent.objects.filter(message=None).first() or OutreachEvent.objects.create(
            kind="stopped", layer="gate", worker="w"
        )
        turn = assigned(make_team(reps=1), 1)[0]
        self.notice_mail = NoticeMail.objects.create(rep=turn.membership.rep, worker="w")
        self.notice = Notice.objects.create(assignment=turn, mail=self.notice_mail)
        self.other_lead = make_leads(1)[0].pk
        self.report = ProviderEvent.objects.create(source="mail events", event_id="1", kind="sent", mail_id="<m@x>")
        self.agent = Agent.objects.create(name="a", digest="0" * 64, hint="rota_", may_mail=True, made_by="Pat")
        self.request = AgentRequest.objects.create(agent=self.agent, key="k", digest="d")
        self.job = LeadJob.objects.create(name="call")
        until = self.claim.lease_until
        self.lead_claim = LeadClaim.objects.create(job=self.job, worker="agent a", size=1, lease_until=until)
        self.work = LeadHold.objects.create(claim=self.lead_claim, job=self.job, lead_id=self.other_lead)


SPOIL: dict[str, Callable[[Rows], None]] = {
    "campaign_has_a_name": lambda r: change(r.campaign, name=""),
    "campaign_status_is_known": lambda r: change(r.campaign, status="gone"),
    "campaign_launched_at_iff_launched": lambda r: change(r.campaign, launched_at=None),
    "campaign_digests_iff_launched": lambda r: change(r.draft, audience_digest="a"),
    "campaign_window_has_both_ends_in_order": lambda r: change(r.campaign, window_from="10:00", window_until="09:00"),
    "campaign_window_in_is_known": lambda r: change(r.draft, window_in="moon"),
    "campaign_from_is_one_line": lambda r: change(r.campaign, from_name="Pat\r\nBcc: x@ex.example"),
    "campaign_from_address_is_set": lambda r: change(r.campaign, from_address=""),
    "campaign_same_list_and_content_once": lambda r: copy(r.campaign, name="again"),
    "step_order_once_per_campaign": lambda r: copy(r.step),
    "step_order_from_1": lambda r: copy(r.step, order=0),
    "step_subject_is_one_line": lambda r: change(r.step, subject="Hi\nBcc: x@ex.example"),
    "step_has_subject_and_body": lambda r: change(r.step, body=""),
    "campaign_day_once": lambda r: copy(r.day),
    "campaign_day_begun_never_negative": lambda r: change(r.day, begun=-1),
    "recipient_key_once": lambda r: copy(r.recipient),
    "recipient_key_is_set": lambda r: change(r.recipient, key=""),
    "recipient_key_in_lower_case": lambda r: change(r.recipient, key="A@ex.example"),
    "suppression_one_current_per_recipient": lambda r: copy(r.suppression),
    "suppression_reason_is_known": lambda r: change(r.suppression, reason="mood"),
    "suppression_lifted_because_iff_lifted": lambda r: change(r.suppression, lifted_because="sorry"),
    "enrolment_once_per_campaign_and_lead": lambda r: copy(
        r.enrolment, recipient_id=Recipient.objects.create(key="other@ex.example").pk
    ),
    "enrolment_once_per_campaign_and_address": lambda r: copy(r.enrolment, lead_id=r.other_lead),
    "enrolment_end_reason_iff_ended": lambda r: change(r.enrolment, end_reason="replied"),
    "enrolment_has_an_address": lambda r: change(r.enrolment, address=""),
    "enrolment_zone_has_a_name": lambda r: change(r.enrolment, zone=""),
    "message_once_per_enrolment_and_step": lambda r: copy(r.message),
    "message_status_is_known": lambda r: change(r.message, status="lost", claim=None),
    "message_claim_iff_claimed_or_begun": lambda r: change(r.message, claim=None),
    "message_sent_at_iff_sent": lambda r: change(r.message, status="sent", claim=None),
    "message_reason_iff_given_up": lambda r: change(r.message, status="failed", claim=None),
    "message_counts_never_negative": lambda r: change(r.message, attempts=-1),
    "outreach_claim_end_reason_iff_ended": lambda r: change(r.claim, end_reason="done"),
    "outreach_claim_lease_ends_after_it_starts": lambda r: change(r.claim, lease_until=r.claim.claimed_at),
    "outreach_claim_names_its_worker": lambda r: change(r.claim, worker=""),
    "job_lock_holder_whole_or_none": lambda r: change(r.lock, token=uuid.uuid4()),
    "send_attempt_one_live": lambda r: copy(r.attempt, number=2),
    "send_attempt_number_once_per_message": lambda r: copy(r.attempt, step_id=other_step(r)),
    "send_attempt_status_is_known": lambda r: change(r.attempt, status="maybe", settled_at=r.attempt.begun_at),
    "send_attempt_settled_at_iff_settled": lambda r: change(r.attempt, status="accepted"),
    "send_attempt_disproved_says_who_and_why": lambda r: change(
        r.attempt, status="disproved", settled_at=r.attempt.begun_at
    ),
    "send_attempt_owes_task_if_accepted": lambda r: change(r.attempt, activity_owed=True),
    "send_attempt_number_from_1": lambda r: change(r.attempt, number=0),
    "outreach_event_before_and_after_iff_message": lambda r: change(r.event, before="due", after="sent"),
    "outreach_event_layer_is_known": lambda r: change(r.event, layer="luck"),
    "notice_mail_status_is_known": lambda r: change(r.notice_mail, status="lost"),
    "notice_mail_due_at_iff_deferred": lambda r: change(r.notice_mail, due_at=r.claim.claimed_at),
    "notice_mail_settled_at_iff_settled": lambda r: change(r.notice_mail, status="sent"),
    "notice_mail_tries_from_1": lambda r: change(r.notice_mail, tries=0),
    "notice_mail_names_its_worker": lambda r: change(r.notice_mail, worker=""),
    "notice_once_per_assignment": lambda r: copy(r.notice),
    "provider_event_once": lambda r: copy(r.report),
    "provider_event_is_named": lambda r: change(r.report, event_id=""),
    "provider_event_is_about_somebody": lambda r: change(r.report, mail_id=""),
    "provider_event_kind_is_known": lambda r: change(r.report, kind="guessed"),
    "agent_name_once": lambda r: copy(r.agent, digest="1" * 64),
    "agent_token_once": lambda r: copy(r.agent, name="b"),
    "agent_name_is_plain": lambda r: change(r.agent, name="a:b"),
    "agent_token_is_hashed": lambda r: change(r.agent, digest="rota_token"),
    "agent_may_do_something": lambda r: change(r.agent, may_mail=False),
    "agent_revoked_by_iff_revoked": lambda r: change(r.agent, revoked_by="Pat"),
    "agent_request_key_once": lambda r: copy(r.request),
    "agent_request_has_a_key": lambda r: change(r.request, key=""),
    "agent_request_answer_whole_or_none": lambda r: change(r.request, code=200),
    "lead_job_name_once": lambda r: copy(r.job),
    "lead_job_has_a_name": lambda r: change(r.job, name=""),
    "lead_claim_end_reason_iff_ended": lambda r: change(r.lead_claim, end_reason="done"),
    "lead_claim_lease_ends_after_it_starts": lambda r: change(r.lead_claim, claimed_at=r.lead_claim.lease_until),
    "lead_claim_names_its_worker": lambda r: change(r.lead_claim, worker=""),
    "lead_hold_one_taken_per_job": lambda r: copy(r.work, claim_id=second_claim(r).pk),
    "lead_hold_once_per_claim": lambda r: copy(r.work, status="released", settled_at=r.claim.claimed_at),
    "lead_hold_status_is_known": lambda r: change(r.work, status="lost", settled_at=r.claim.claimed_at),
    "lead_hold_settled_at_iff_settled": lambda r: change(r.work, status="done"),
    "lead_hold_begun_at_if_begun": lambda r: change(r.work, status="begun"),
    "sending_state_is_one_row": lambda r: SendingState(pk=2).save(force_insert=True),
    "sending_state_off_until_only_if_off": lambda r: change(SendingState.objects.get(), off_until=r.claim.claimed_at),
}


def other_step(rows: Rows) -> int:
    return rows.campaign.steps.exclude(pk=rows.step.pk).get().pk


def second_claim(rows: Rows) -> LeadClaim:
    return LeadClaim.objects.create(job=rows.job, worker="agent b", size=1, lease_until=rows.claim.lease_until)


@pytest.mark.parametrize("name", SPOIL)
def test_the_database_refuses_a_row_that_breaks(name: str) -> None:
    rows = Rows()
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        SPOIL[name](rows)
    assert refusal.value.__cause__.diag.constraint_name == name  # type: ignore[union-attr]


def test_every_named_constraint_is_tried() -> None:
    named = {c.name for model in apps.get_app_config("outreach").get_models() for c in model._meta.constraints}
    assert named == set(SPOIL)


@pytest.mark.parametrize("status", ["begun", "accepted", "in_doubt"])
def test_no_second_intent_while_the_first_may_have_gone_out(status: str) -> None:
    _, attempt = make_begun()
    change(attempt, status=status, settled_at=attempt.begun_at if status == "accepted" else None)
    with pytest.raises(IntegrityError, match="send_attempt_one_live"), transaction.atomic():
        copy(attempt, number=2, status="begun", settled_at=None)


@pytest.mark.parametrize("status", ["deferred", "refused", "disproved"])
def test_a_second_intent_once_the_first_definitely_did_not_go(status: str) -> None:
    _, attempt = make_begun()
    change(attempt, status=status, settled_at=attempt.begun_at, resolved_by="Pat", resolve_reason="bounced back")
    copy(attempt, number=2, status="begun", settled_at=None)


def test_status_is_assigned_by_moves_only() -> None:
    source = Path(apps.get_app_config("outreach").path)
    for path in source.rglob("*.py"):
        if path.parent.name not in ("moves", "migrations"):
            assert not re.search(r"\.status = |update\([^)]*status=", path.read_text()), path


def test_hot_tables_have_storage_settings_of_their_own() -> None:
    make_running()
    with connection.cursor() as cursor:
        cursor.execute("SELECT reloptions FROM pg_class WHERE relname = 'outreach_message'")
        (options,) = cursor.fetchone()
    assert "fillfactor=80" in options
