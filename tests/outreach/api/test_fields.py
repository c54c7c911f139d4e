"""What the database cannot take is refused with the field named, or mended where it is for people to read only."""

from typing import Any

import pytest
from django.db import DataError

from outreach.models import LeadClaim, LeadHold, Message, SendAttempt
from tests.make import make_lead, make_team
from tests.outreach.api.asking import Asking
from tests.outreach.make import make_running

pytestmark = pytest.mark.django_db(transaction=True)

HUGE = 10**30
ODD = ("a\x00b", "a\ud800b")


@pytest.fixture
def agent() -> Asking:
    return Asking()


def fields(answer: tuple[int, Any]) -> list[str]:
    """What a refusal names."""
    code, said = answer
    assert code == 422, said
    return [error["path"] for error in said["errors"]]


@pytest.mark.parametrize("job", ["   ", "\u3000", *ODD, "j" * 101])
def test_a_job_that_is_blank_odd_or_too_long_is_refused(agent: Asking, job: str) -> None:
    assert fields(agent.post("leads/claims", job=job)) == ["job"]
    assert not LeadClaim.objects.exists()


@pytest.mark.parametrize("source", ["", " ", *ODD])
def test_a_source_that_no_source_can_have_is_refused(agent: Asking, source: str) -> None:
    assert fields(agent.post("leads/claims", job="call", source=source)) == ["source"]


@pytest.mark.parametrize("number", [0, -1, HUGE])
def test_a_number_that_nothing_can_have_is_refused(agent: Asking, number: int) -> None:
    make_lead(team=make_team())
    token = agent.get("leads/claims", job="call")["claim"]
    assert fields(agent.post("leads/claims", job="call", team=number)) == ["team"]
    assert fields(agent.post("mail/claims", campaign=number)) == ["campaign"]
    assert fields(agent.post(f"leads/claims/{token}/leads/{number}/begin")) == ["lead"]
    assert fields(agent.post(f"mail/claims/{token}/messages/{number}/begin")) == ["message"]
    assert fields(agent.post(f"mail/attempts/{number}/settle", claim=token, outcome="sent")) == ["attempt"]
    results = [{"lead": number, "outcome": "done"}]
    assert fields(agent.post(f"leads/claims/{token}/settle", results=results)) == ["results.0.lead"]


def test_a_job_is_known_by_its_name_without_what_stands_around_it(agent: Asking) -> None:
    make_lead(team=make_team())
    assert agent.get("leads/claims", job=" call ")["leads"]
    assert not agent.get("leads/claims", job="call")["leads"]


@pytest.mark.parametrize("odd", ODD)
def test_a_lead_is_settled_whatever_stands_in_the_note(agent: Asking, odd: str) -> None:
    lead = make_lead(team=make_team())
    token = agent.get("leads/claims", job="call")["claim"]
    agent.get(f"leads/claims/{token}/leads/{lead.pk}/begin")
    results = [{"lead": lead.pk, "outcome": "done", "note": odd}]
    assert agent.get(f"leads/claims/{token}/settle", results=results)["settled"] == {str(lead.pk): "done"}
    assert LeadHold.objects.get().note == "a\ufffdb"


@pytest.mark.parametrize("odd", ODD)
def test_a_mail_is_settled_whatever_stands_in_the_reply_and_released_whatever_the_reason(
    agent: Asking, odd: str
) -> None:
    make_running(leads=2)
    claim = agent.get("mail/claims")
    token, message = claim["claim"], claim["messages"][0]["message"]
    attempt = agent.get(f"mail/claims/{token}/messages/{message}/begin")["attempt"]
    said = agent.get(f"mail/attempts/{attempt}/settle", claim=token, outcome="sent", reply=odd)
    assert (said["recorded"], said["message"]) == (True, "sent")
    assert SendAttempt.objects.get().reply == "a\ufffdb"
    assert agent.get(f"mail/claims/{token}/release", reason=odd)["released"] == 1
    assert Message.objects.get(status="due").events.latest("pk").reason == "a\ufffdb"


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_leads_since_the_ends_of_the_calendar_are_claimed_like_any(agent: Asking, since: str) -> None:
    assert agent.post("leads/claims", job="call", since=since)[0] == 200


def test_what_the_database_refuses_is_not_asked_for_again(agent: Asking) -> None:
    def refused(**_: Any) -> None:
        raise DataError("value too long")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outreach.flows.agents.claim_batch", refused)
        make_running()
        answer = agent.answer("mail/claims", key="k1")
    assert answer.status_code == 500 and "Retry-After" not in answer
    assert answer["Content-Type"] == "application/problem+json" and "too long" not in answer.content.decode()
    assert agent.get("mail/claims", key="k1")["claim"], "the key is free: the fault may be mended meanwhile"
