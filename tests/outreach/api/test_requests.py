"""What holds for every request of an agent: the token, its scope, its rate, and one answer to one key."""

import threading
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, transaction
from django.db.models import F
from django.test import Client

from outreach.api import once
from outreach.flows.reaping import reap_all
from outreach.models import Agent, AgentRequest, Claim, LeadClaim, Message
from outreach.moves import agent_requests
from outreach.moves.agents import digest_of, make_agent
from tests.make import make_lead, make_team
from tests.outreach.api.asking import Asking, refreshed
from tests.outreach.make import make_running
from tests.races.test_outreach_claims import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def agent() -> Asking:
    return Asking()


@pytest.mark.parametrize("header", [None, "Bearer", "Bearer rota_wrong", "Basic cm90YTpyb3Rh", "rota_wrong"])
def test_without_a_known_token_nobody_is_let_in(header: str | None) -> None:
    headers: Any = {"Authorization": header} if header else {}
    answer = Client().post("/api/mail/claims", {}, content_type="application/json", headers=headers)
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json" and answer["WWW-Authenticate"].startswith("Bearer")


def test_only_a_digest_of_the_token_is_kept(agent: Asking) -> None:
    row = Agent.objects.values().get()
    assert row["digest"] == digest_of(agent.token) and agent.token.startswith(row["hint"])
    assert agent.token not in str(row)


def test_a_name_is_never_given_twice(agent: Asking) -> None:
    with pytest.raises(IntegrityError, match="agent_name_once"), transaction.atomic():
        make_agent(name=agent.agent.name, may_mail=True, may_leads=True, by="Pat")


def test_a_token_is_for_its_kind_of_work_only() -> None:
    make_running()
    code, answer = Asking(may_mail=False).post("mail/claims")
    assert code == 403 and "not for mail" in answer["detail"]
    code, answer = Asking(may_leads=False).post("leads/claims", job="call")
    assert code == 403 and "not for leads" in answer["detail"]
    assert not Claim.objects.exists() and not LeadClaim.objects.exists()


def test_the_rate_is_kept_and_the_answer_says_when_to_come_again(agent: Asking, settings: Any) -> None:
    settings.AGENT_RATE_PER_MIN = 3
    Agent.objects.update(allowance=3)
    answers = [agent.answer("mail/claims") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert 15 <= int(answers[3]["Retry-After"]) <= 20
    assert answers[3].json()["title"] == "Too Many Requests"
    assert Asking().post("mail/claims")[0] == 200, "each agent has its own rate"
    minute_ago = refreshed(agent.agent).asked_at
    Agent.objects.update(asked_at=F("asked_at") - (refreshed(agent.agent).asked_at - minute_ago) - 21 * second())
    assert [agent.post("mail/claims")[0] for _ in range(2)] == [200, 429]


def second() -> Any:
    from datetime import timedelta

    return timedelta(seconds=1)


def test_the_rate_holds_over_all_processes_together(agent: Asking, settings: Any) -> None:
    settings.AGENT_RATE_PER_MIN = 6
    Agent.objects.update(allowance=6)
    codes = at_once(12, lambda _: agent.post("mail/claims")[0])
    assert sorted(codes) == [200] * 6 + [429] * 6


def test_the_same_key_and_body_get_the_same_answer_and_nothing_happens_twice(agent: Asking) -> None:
    make_running(leads=4)
    first, again = (agent.answer("mail/claims", key="k1", size=2) for _ in range(2))
    assert first.json() == again.json() and first.json()["claim"]
    assert "Idempotent-Replayed" not in first and again["Idempotent-Replayed"] == "true"
    assert Claim.objects.count() == 1


def test_a_refusal_is_replayed_too(agent: Asking) -> None:
    answers = [agent.answer("mail/claims", key="k1", campaign=12345) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].json() == answers[1].json()
    assert answers[1]["Content-Type"] == "application/problem+json" and answers[1]["Idempotent-Replayed"] == "true"


def test_the_same_key_with_another_body_or_path_is_refused(agent: Asking) -> None:
    make_running(leads=4)
    claim = agent.get("mail/claims", key="k1", size=2)
    code, answer = agent.post("mail/claims", key="k1", size=3)
    assert code == 422 and "another request" in answer["detail"]
    assert agent.post(f"mail/claims/{claim['claim']}/release", key="k1", size=2)[0] == 422
    assert Claim.objects.count() == 1 and Message.objects.filter(status="claimed").count() == 2


def test_keys_of_different_agents_do_not_meet(agent: Asking) -> None:
    make_running(leads=2)
    assert agent.get("mail/claims", key="k1", size=1) != Asking().get("mail/claims", key="k1", size=1)


@pytest.mark.parametrize("key", ["   ", "k" * 201, "a\tb"])
def test_a_write_without_a_usable_key_is_refused(agent: Asking, key: str) -> None:
    code, answer = agent.post("mail/claims", key=key)
    assert code == 400 and "Idempotency-Key" in answer["detail"]


def test_of_two_at_once_with_one_key_one_runs_and_the_other_is_told_to_wait_or_gets_its_answer(agent: Asking) -> None:
    make_running(leads=8)
    answers = at_once(6, lambda _: agent.answer("mail/claims", key="k1", size=2))
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert all(answer["Retry-After"] == "1" for answer in answers if answer.status_code == 409)
    assert len({answer.json()["claim"] for answer in answers if answer.status_code == 200}) == 1
    assert Claim.objects.count() == 1


def test_negative_control_without_keys_each_of_them_runs(agent: Asking) -> None:
    make_running(leads=12)
    at_once(6, lambda _: agent.answer("mail/claims", size=2))
    assert Claim.objects.count() == 6


def test_a_request_whose_process_died_runs_again_once_it_is_stale(agent: Asking) -> None:
    make_running()
    key = {"agent": agent.agent, "key": "k1"}
    died = threading.Event()

    def dies(**_: Any) -> None:
        died.set()
        raise SystemExit  # as a killed process would, it leaves the key unanswered

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(once, "answer_request", dies)
        with pytest.raises(SystemExit):
            agent.post("mail/claims", key="k1")
    assert died.is_set() and AgentRequest.objects.get(**key).code is None
    assert agent.post("mail/claims", key="k1")[0] == 409
    AgentRequest.objects.update(asked_at=F("asked_at") - agent_requests.STALE_S * second())
    assert agent.post("mail/claims", key="k1")[0] == 200


def test_after_a_fault_of_the_server_the_key_is_free(agent: Asking, monkeypatch: Any) -> None:
    make_running()
    agent.client.raise_request_exception = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(once, "answer_request", lambda **_: 1 / 0)
        assert agent.answer("mail/claims", key="k1").status_code == 500
    assert agent.post("mail/claims", key="k1")[0] == 200


def test_while_the_database_cannot_answer_the_request_may_be_sent_again(agent: Asking) -> None:
    make_running()

    def locked(**_: Any) -> None:
        raise OperationalError("canceling statement due to lock timeout")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outreach.flows.agents.claim_batch", locked)
        answer = agent.answer("mail/claims", key="k1")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert answer["Content-Type"] == "application/problem+json" and "lock timeout" not in answer.content.decode()
    assert agent.get("mail/claims", key="k1")["claim"]


def test_a_request_that_is_too_large_is_refused(agent: Asking, settings: Any) -> None:
    code, answer = agent.post("leads/claims", job="x" * settings.INBOUND_MAX_BYTES)
    assert code == 413 and str(settings.INBOUND_MAX_BYTES) in answer["detail"]


def test_keys_are_pruned_after_a_day(agent: Asking) -> None:
    for key in ("old", "new"):
        agent.post("mail/claims", key=key)
    hours = agent_requests.KEPT_H * 3_600 + 1
    AgentRequest.objects.filter(key="old").update(asked_at=F("asked_at") - hours * second())
    reap_all()
    assert AgentRequest.objects.get().key == "new"


def test_a_bad_body_is_refused_with_the_fields_and_without_their_values(agent: Asking) -> None:
    code, answer = agent.post("leads/claims", job="", size=0, team="secret value")
    assert code == 422
    assert {error["path"] for error in answer["errors"]} == {"job", "size", "team"}
    assert "secret value" not in str(answer)
    broken = agent.client.post("/api/mail/claims", "{", content_type="application/json")
    assert broken.status_code == 400 and broken["Content-Type"] == "application/problem+json"


def test_the_document_describes_every_address_and_loads_nothing_from_other_hosts() -> None:
    document = Client().get("/api/openapi.json").json()
    writes = [path["post"] for path in document["paths"].values()]
    assert len(writes) >= 10
    assert all(any(p["name"] == "Idempotency-Key" for p in write["parameters"]) for write in writes)
    page = Client().get("/api/docs").content.decode()
    assert "//" not in page.replace("</", "").replace("/api//", "")


def test_leads_need_no_mail(agent: Asking) -> None:
    team = make_team()
    lead = make_lead(team=team)
    answer = agent.get("leads/claims", job="call", team=team.pk)
    assert [row["lead"] for row in answer["leads"]] == [lead.pk]
