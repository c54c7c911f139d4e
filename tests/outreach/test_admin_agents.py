"""Agents in the admin: the token is seen once, revoking bites at once, leads in doubt are decided."""

import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db.models import F
from django.test import Client
from django.urls import reverse

from outreach.models import Agent, LeadClaim, LeadHold
from outreach.moves.agents import digest_of
from outreach.moves.lead_claims import expire_leads
from tests.make import make_lead, make_team
from tests.outreach.api.asking import Asking
from tests.staff import ask, confirm, hands_on, listed, logged_in, page_of, said

pytestmark = pytest.mark.django_db(transaction=True)
AGENT, HOLD = "outreach_agent", "outreach_leadhold"
ADD = "admin:outreach_agent_add"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def staff() -> Client:
    return logged_in()


def test_a_token_is_shown_once_and_kept_nowhere(staff: Client) -> None:
    answer = staff.post(reverse(ADD), {"name": "caller 1", "may_leads": "on"})
    shown = re.search(r"rota_[\w-]{40,}", answer.content.decode())
    assert shown and "no-store" in answer["Cache-Control"]
    agent = Agent.objects.get()
    assert (agent.digest, agent.made_by) == (digest_of(shown.group()), "robin")
    for page in (listed(AGENT), page_of(AGENT, agent.pk)):
        assert shown.group() not in staff.get(page).content.decode()
    kept = [str(row.get_decoded()) for row in Session.objects.all()] + [str(row) for row in LogEntry.objects.values()]
    assert not any(shown.group() in text for text in kept)
    with_token = Client(headers={"Authorization": f"Bearer {shown.group()}", "Idempotency-Key": "k"})
    answer = with_token.post("/api/leads/claims", {"job": "call"}, content_type="application/json")
    assert answer.status_code == 200


def test_a_name_is_asked_for_once_and_some_work_must_be_chosen(staff: Client) -> None:
    Asking(name="caller")
    assert "already exists" in staff.post(reverse(ADD), {"name": "caller", "may_mail": "on"}).content.decode()
    assert "at least one kind" in staff.post(reverse(ADD), {"name": "other"}).content.decode()
    assert "beginning with" in staff.post(reverse(ADD), {"name": "a:b", "may_mail": "on"}).content.decode()
    assert Agent.objects.count() == 1


def test_revoking_asks_first_and_bites_at_once(staff: Client) -> None:
    agent = Asking()
    pk = agent.agent.pk
    assert "for good" in ask(staff, AGENT, "revoke_selected", pk).content.decode()
    assert agent.post("leads/claims", job="call")[0] == 200
    assert said(confirm(staff, AGENT, "revoke_selected", pk)) == ["Revoked 1."]
    assert agent.post("leads/claims", job="call")[0] == 401
    assert said(confirm(staff, AGENT, "revoke_selected", pk)) == ["Revoked 0. Skipped 1 revoked already."]
    assert "revoked" in staff.get(page_of(AGENT, pk)).content.decode()


def test_who_may_only_look_makes_and_revokes_nobody() -> None:
    agent, viewer = Asking(), logged_in("kim", may=("view_agent",))
    assert viewer.get(listed(AGENT)).status_code == 200
    assert viewer.post(reverse(ADD), {"name": "mine", "may_mail": "on"}).status_code == 403
    confirm(viewer, AGENT, "revoke_selected", agent.agent.pk)
    assert Agent.objects.get().revoked_at is None


def test_leads_in_doubt_are_counted_as_done_or_handed_out_again_with_a_reason(staff: Client) -> None:
    team, agent = make_team(), Asking()
    leads = [make_lead(team=team).pk for _ in range(2)]
    claim = agent.get("leads/claims", job="call")
    for lead in leads:
        agent.get(f"leads/claims/{claim['claim']}/leads/{lead}/begin")
    ago = timedelta(hours=1)
    LeadClaim.objects.update(claimed_at=F("claimed_at") - 2 * ago, lease_until=F("claimed_at") - ago)
    assert expire_leads() == (0, 2)
    first, second = LeadHold.objects.order_by("lead_id").values_list("pk", flat=True)
    assert "Hand 1 lead out again" in confirm(staff, HOLD, "hand_out_again", first).content.decode(), (
        "a reason is missing"
    )
    assert LeadHold.objects.filter(status="in_doubt").count() == 2

    confirm(staff, HOLD, "hand_out_again", first, reason="The dialler was down")
    confirm(staff, HOLD, "it_was_done", second)

    assert list(LeadHold.objects.order_by("lead_id").values_list("status", "settled_by")) == [
        ("released", "robin"),
        ("done", "robin"),
    ]
    assert [lead["lead"] for lead in Asking().get("leads/claims", job="call")["leads"]] == leads[:1]
    page = staff.get(listed(HOLD)).content.decode()
    assert agent.worker in page and "call" in page


def test_pages_open_also_empty(staff: Client) -> None:
    for model in (AGENT, HOLD):
        assert staff.get(listed(model)).status_code == 200
    hands_on(staff, reverse(ADD), {"name": "a", "may_mail": "on"})
