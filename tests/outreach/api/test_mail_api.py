"""Campaign mail over the API: an agent gets its own mails only, passes the gate for each, and settles what it began."""

import base64
import email
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from crmsync.models import OutboxMessage
from outreach.flows.launching import launch
from outreach.flows.reaping import reap_all
from outreach.models import Campaign, Claim, Message, OutreachEvent, SendAttempt, Suppression
from outreach.moves.agents import revoke
from outreach.moves.campaigns import pause
from outreach.moves.sending import switch_off
from outreach.moves.suppression import suppress
from routing.models import Lead
from tests.outreach.api.asking import Asking
from tests.outreach.make import expire, make_campaign, make_running

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def agent() -> Asking:
    return Asking()


def claimed(agent: Asking, campaign: Campaign, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = agent.get("mail/claims", campaign=campaign.pk, **more)
    assert answer["claim"] and answer["messages"]
    return answer


def begin(agent: Asking, claim: dict[str, Any], place: int = 0, *, key: str = "") -> tuple[int, Any]:
    return agent.post(f"mail/claims/{claim['claim']}/messages/{claim['messages'][place]['message']}/begin", key=key)


def test_an_agent_claims_begins_sends_and_settles_and_the_ledger_names_it(agent: Asking) -> None:
    campaign = make_running(leads=2)
    claim = claimed(agent, campaign, size=1)
    assert len(claim["messages"]) == 1
    code, begun = begin(agent, claim)
    assert code == 200
    raw = email.message_from_bytes(base64.b64decode(begun["mail"]["raw"]))
    assert raw["Message-ID"] == begun["mail"]["message_id"] == SendAttempt.objects.get().mail_id
    assert "Hello Ann" in begun["mail"]["text"] and raw["To"] == begun["mail"]["recipient"]
    assert raw["List-Unsubscribe"] == begun["mail"]["headers"]["List-Unsubscribe"]

    path = f"mail/attempts/{begun['attempt']}/settle"
    settled = agent.get(path, claim=claim["claim"], outcome="sent", code=250, reply="queued as 1")

    assert settled == {"recorded": True, "attempt": "accepted", "message": "sent"}
    attempt = SendAttempt.objects.get()
    assert (attempt.worker, attempt.reply) == (agent.worker, "queued as 1")
    assert Claim.objects.get().end_reason == "done"
    assert not OutboxMessage.objects.exists(), "the campaign logs nothing in the CRM"
    told = OutreachEvent.objects.filter(message=attempt.message_id).order_by("pk")
    assert list(told.values_list("kind", "worker")) == [(kind, agent.worker) for kind in ("claimed", "begun", "sent")]


def test_what_an_agent_sent_is_logged_in_the_crm_under_the_mails_own_subject(agent: Asking) -> None:
    campaign = make_running(leads=2, logs_activities=True)
    Lead.objects.update(first_assigned_at=timezone.now())
    claim = claimed(agent, campaign)
    for place, outcome in enumerate(("sent", "in_doubt")):
        _, begun = begin(agent, claim, place)
        settle = f"mail/attempts/{begun['attempt']}/settle"
        for _ in range(2):
            agent.post(settle, claim=claim["claim"], outcome=outcome)
    (message,) = OutboxMessage.objects.all()
    assert (message.record.object, message.version) == ("Task", 1)
    assert message.fields["subject"] == f"Email: {Message.objects.get(status='sent').step.subject}"


def test_two_agents_get_different_mails_and_nothing_is_left_for_the_third() -> None:
    campaign = make_running(leads=4)
    claims = [claimed(Asking(), campaign, size=2) for _ in range(2)]
    taken = [message["message"] for claim in claims for message in claim["messages"]]
    assert len(set(taken)) == 4
    assert Asking().get("mail/claims", campaign=campaign.pk) == {
        "claim": None, "campaign": None, "lease_until": None, "messages": []
    }  # fmt: skip


def test_without_a_number_the_first_running_campaign_with_due_mails_is_claimed(agent: Asking) -> None:
    empty, full = make_running(), make_running()
    Message.objects.filter(campaign=empty).update(due_at=timezone.now() + timedelta(days=1))
    assert agent.get("mail/claims")["campaign"] == full.pk
    assert agent.post("mail/claims", campaign=full.pk + 1_000)[0] == 404


def test_another_agents_claim_is_refused_whatever_is_asked_of_it_and_that_is_written_down(agent: Asking) -> None:
    claim, other = claimed(agent, make_running(leads=2)), Asking()
    _, begun = begin(agent, claim)
    token = claim["claim"]
    refusals = [
        begin(other, claim, 1),
        other.post(f"mail/claims/{token}/extend", lease_s=60),
        other.post(f"mail/claims/{token}/release"),
        other.post(f"mail/attempts/{begun['attempt']}/settle", claim=token, outcome="sent"),
    ]
    assert [code for code, _ in refusals] == [403] * 4
    assert all("Another worker" in answer["detail"] for _, answer in refusals)
    told = OutreachEvent.objects.filter(kind="turned_away", layer="claim", worker=other.worker)
    assert told.count() == 4
    assert SendAttempt.objects.get().status == "begun" and Message.objects.filter(status="claimed").count() == 1


def test_a_message_or_an_attempt_of_another_claim_is_not_found_or_lost(agent: Asking) -> None:
    campaign = make_running(leads=2)
    first, second = claimed(agent, campaign, size=1), claimed(agent, campaign, size=1)
    theirs = second["messages"][0]["message"]
    code, answer = agent.post(f"mail/claims/{first['claim']}/messages/{theirs}/begin")
    assert (code, answer["detail"]) == (409, "the claim is lost")
    _, begun = begin(agent, second)
    assert agent.post(f"mail/attempts/{begun['attempt']}/settle", claim=first["claim"], outcome="sent")[0] == 404
    assert agent.post(f"mail/claims/{first['claim']}/messages/{theirs + 1_000}/begin")[0] == 404


def test_after_the_lease_nothing_begins_and_what_was_begun_is_in_doubt_until_its_late_report(agent: Asking) -> None:
    claim = claimed(agent, make_running(leads=2))
    _, begun = begin(agent, claim)
    expire()
    code, answer = begin(agent, claim, 1)
    assert (code, answer["detail"]) == (409, "the lease has run out")
    assert agent.post(f"mail/claims/{claim['claim']}/extend", lease_s=60)[0] == 409
    reap_all()
    assert begin(agent, claim, 1)[1]["detail"] == "the claim is lost"
    assert sorted(Message.objects.values_list("status", flat=True)) == ["due", "in_doubt"]
    again = claimed(Asking(), Campaign.objects.get())
    assert [message["message"] for message in again["messages"]] == [claim["messages"][1]["message"]]

    path = f"mail/attempts/{begun['attempt']}/settle"
    assert agent.get(path, claim=claim["claim"], outcome="sent")["recorded"]
    assert Message.objects.filter(status="sent").count() == 1
    assert agent.get(path, claim=claim["claim"], outcome="refused", code=550)["recorded"] is False
    assert SendAttempt.objects.get().status == "accepted"


@pytest.mark.parametrize(
    ("close", "reason"),
    [
        ("unsubscribe", "the claim is lost"),  # its row was taken out of the claim at once
        ("suppression alone", "the address wants no mail"),
        ("pause", "campaign is not running"),
        ("switch", "sending is off"),
        ("quiet period", "quiet period"),
    ],
)
def test_a_closed_gate_answers_409_with_the_reason_and_begins_nothing(agent: Asking, close: str, reason: str) -> None:
    campaign = make_running()
    claim = claimed(agent, campaign)
    message = Message.objects.get()
    if close == "unsubscribe":
        with transaction.atomic():
            why = Suppression.Reason.UNSUBSCRIBED
            suppress(recipient_id=message.recipient_id, reason=why, worker="test")
    elif close == "suppression alone":
        Suppression.objects.create(recipient_id=message.recipient_id, reason="unsubscribed")
    elif close == "pause":
        assert pause(campaign_id=campaign.pk)
    elif close == "switch":
        switch_off(because="a test", worker="Pat")
    else:
        other = make_campaign()
        launch(campaign_id=other.pk, leads=[campaign.enrolments.get().lead_id], by="Pat")
        other_agent = Asking()
        assert begin(other_agent, claimed(other_agent, other))[0] == 200
    code, answer = begin(agent, claim)
    assert (code, answer["status"], answer["detail"]) == (409, 409, reason)
    assert not SendAttempt.objects.filter(message=message).exists()
    assert OutreachEvent.objects.filter(kind="turned_away", worker=agent.worker, reason=reason).exists()


def test_a_mail_begins_once(agent: Asking) -> None:
    claim = claimed(agent, make_running())
    assert [begin(agent, claim)[0] for _ in range(2)] == [200, 409]
    assert SendAttempt.objects.count() == 1


def test_while_sending_is_off_nothing_is_claimed(agent: Asking) -> None:
    make_running()
    switch_off(because="wrong price", worker="Pat")
    code, answer = agent.post("mail/claims")
    assert code == 409 and "wrong price" in answer["detail"]


def test_a_mail_that_cannot_be_written_is_given_up_with_its_reason(agent: Asking) -> None:
    campaign = make_running()
    claim = claimed(agent, campaign)
    campaign.steps.update(body="{{ lead.fields.plan }}")
    code, answer = begin(agent, claim)
    assert code == 409 and "lead.fields.plan" in answer["detail"]
    assert Message.objects.get().status == "failed"


@pytest.mark.parametrize(
    ("said", "attempt", "message", "suppressed"),
    [
        ({"outcome": "deferred", "code": 450, "reply": "later"}, "deferred", "due", False),
        ({"outcome": "refused", "code": 554, "fault": "content"}, "refused", "failed", False),
        ({"outcome": "refused", "code": 550, "reply": "5.1.1 nobody"}, "refused", "failed", True),
        ({"outcome": "in_doubt"}, "in_doubt", "in_doubt", False),
    ],
)
def test_what_did_not_plainly_go_is_kept_for_what_it_is(
    agent: Asking, said: dict[str, Any], attempt: str, message: str, suppressed: bool
) -> None:
    claim = claimed(agent, make_running())
    _, begun = begin(agent, claim)
    settled = agent.get(f"mail/attempts/{begun['attempt']}/settle", claim=claim["claim"], **said)
    assert settled == {"recorded": True, "attempt": attempt, "message": message}
    assert Suppression.objects.exists() == suppressed


def test_a_claim_is_extended_and_its_rest_released(agent: Asking) -> None:
    claim = claimed(agent, make_running(leads=3), lease_s=10)
    begin(agent, claim)
    extended = agent.get(f"mail/claims/{claim['claim']}/extend", lease_s=100)
    assert extended["lease_until"] > claim["lease_until"]
    assert agent.get(f"mail/claims/{claim['claim']}/release", reason="closing time") == {"released": 2}
    assert Claim.objects.get().ended_at is None, "one mail of it is begun"
    assert sorted(Message.objects.values_list("status", flat=True)) == ["begun", "due", "due"]
    assert agent.post("mail/claims/00000000-0000-0000-0000-000000000000/release")[0] == 404


def test_a_revoked_agent_is_let_in_no_more_and_its_mails_come_back(agent: Asking) -> None:
    campaign = make_running()
    claim = claimed(agent, campaign)
    with transaction.atomic():
        assert revoke(agent_ids=[agent.agent.pk], by="Pat") == 1
    code, answer = begin(agent, claim)
    assert code == 401 and "revoked" in answer["detail"]
    expire()
    reap_all()
    assert claimed(Asking(), campaign)
