"""Leads over the API: once for each lead of a job, whoever dies, whoever is late."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F

from outreach.flows.reaping import reap_all
from outreach.models import LeadClaim, LeadHold, OutreachEvent, Suppression
from outreach.moves.lead_claims import decide_holds
from outreach.moves.suppression import suppress_address
from routing.models import Lead
from tests.make import make_lead, make_source, make_team, send
from tests.outreach.api.asking import Asking
from tests.races.test_outreach_claims import at_once

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def agent() -> Asking:
    return Asking()


def claimed(agent: Asking, **wanted: Any) -> dict[str, Any]:
    answer: dict[str, Any] = agent.get("leads/claims", **{"job": "call", **wanted})
    return answer


def ids(claim: dict[str, Any]) -> list[int]:
    return [lead["lead"] for lead in claim["leads"]]


def begin(agent: Asking, claim: dict[str, Any], place: int = 0) -> tuple[int, Any]:
    return agent.post(f"leads/claims/{claim['claim']}/leads/{ids(claim)[place]}/begin")


def settle(agent: Asking, claim: dict[str, Any], *leads: int, outcome: str = "done") -> Any:
    results = [{"lead": lead, "outcome": outcome, "note": "spoke to them"} for lead in leads]
    return agent.get(f"leads/claims/{claim['claim']}/settle", results=results)


def leads(count: int, **fields: Any) -> list[int]:
    team = fields.pop("team", None) or make_team()
    return [make_lead(team=team, **fields).pk for _ in range(count)]


def lapse() -> None:
    ago = timedelta(hours=1)
    LeadClaim.objects.filter(ended_at=None).update(
        claimed_at=F("claimed_at") - 2 * ago, lease_until=F("claimed_at") - ago
    )


def test_a_lead_is_claimed_begun_done_and_never_handed_out_again_for_the_job(agent: Asking) -> None:
    (lead,) = leads(1)
    claim = claimed(agent)
    assert claim["leads"][0]["email"] == Lead.objects.get().email
    assert begin(agent, claim)[0] == 200
    assert settle(agent, claim, lead) == {"settled": {str(lead): "done"}, "lost": []}
    hold = LeadHold.objects.get()
    assert (hold.status, hold.note, hold.settled_by) == ("done", "spoke to them", agent.worker)
    assert LeadClaim.objects.get().end_reason == "done"
    assert claimed(Asking())["leads"] == []
    assert ids(claimed(Asking(), job="write")) == [lead], "another job is another matter"


def test_claims_at_once_are_disjoint_and_complete(agent: Asking) -> None:
    every = leads(60)
    agents = [Asking() for _ in range(4)]

    def work(number: int) -> list[int]:
        taken: list[int] = []
        while batch := ids(claimed(agents[number], size=7)):
            taken += batch
        return taken

    taken = [lead for batch in at_once(4, work) for lead in batch]
    assert sorted(taken) == every


def test_the_filter_is_by_team_source_time_and_state(agent: Asking) -> None:
    team = make_team(reps=1)
    source = make_source(team=team)
    sent = send(source=source)
    leads(2)
    assert ids(claimed(agent, job="a", team=team.pk)) == [sent.pk]
    assert ids(claimed(agent, job="b", source=source.slug)) == [sent.pk]
    assert ids(claimed(agent, job="c", since="2099-01-01T00:00:00Z")) == []
    Lead.objects.filter(pk=sent.pk).update(status="closed", closed_at=F("created_at"))
    assert ids(claimed(agent, job="d", team=team.pk)) == []
    assert ids(claimed(agent, job="d", team=team.pk, closed=True)) == [sent.pk]
    assert agent.post("leads/claims", job="e", team=team.pk + 1_000)[0] == 404
    assert agent.post("leads/claims", job="e", source="nowhere")[0] == 404


def test_after_the_lease_another_gets_what_was_not_begun_and_the_late_worker_changes_nothing(agent: Asking) -> None:
    every = leads(3)
    claim = claimed(agent)
    assert begin(agent, claim)[0] == 200
    lapse()
    assert begin(agent, claim, 1)[1]["detail"] == "the lease has run out"
    other = Asking()
    second = claimed(other)
    assert ids(second) == every[1:], "without waiting for the reaper"
    assert begin(agent, claim, 1)[1]["detail"] == "the claim is lost"
    assert agent.post(f"leads/claims/{claim['claim']}/extend", lease_s=60)[0] == 409
    late = settle(agent, claim, *every)
    assert late == {"settled": {str(every[0]): "done"}, "lost": every[1:]}, "its own begun lead is still its to settle"
    assert LeadHold.objects.filter(claim__token=second["claim"], status="held").count() == 2
    told = OutreachEvent.objects.filter(kind="turned_away", worker=agent.worker)
    assert {row.layer for row in told} == {"claim"} and told.count() == 5


def test_what_was_begun_and_not_settled_is_in_doubt_until_a_person_decides(agent: Asking) -> None:
    every = leads(2)
    claim = claimed(agent)
    for place in range(2):
        begin(agent, claim, place)
    lapse()
    assert reap_all().leads_in_doubt == 2
    assert claimed(Asking())["leads"] == []
    doubtful = list(LeadHold.objects.order_by("lead_id").values_list("pk", flat=True))
    assert decide_holds(hold_ids=doubtful[:1], done=False, by="Pat", note="the phone was dead") == 1
    assert decide_holds(hold_ids=doubtful, done=True, by="Pat", note="") == 1
    assert ids(claimed(Asking())) == every[:1]
    assert settle(agent, claim, *every)["lost"] == every


def test_an_address_that_wants_no_mail_does_not_pass_the_gate(agent: Asking) -> None:
    leads(1, email="Ann@Acme.example")
    claim = claimed(agent)
    with transaction.atomic():
        why = Suppression.Reason.UNSUBSCRIBED
        suppress_address(key="ann@acme.example", reason=why, detail="", worker="test")
    code, answer = begin(agent, claim)
    assert (code, answer["detail"]) == (409, "the address wants no mail")
    assert LeadHold.objects.get().status == "held"
    told = OutreachEvent.objects.get(kind="turned_away")
    assert told.layer == "gate" and "Acme" not in told.reason


def test_another_agents_leads_are_refused(agent: Asking) -> None:
    (lead,) = leads(1)
    claim, other = claimed(agent), Asking()
    token = claim["claim"]
    codes = [
        begin(other, claim)[0],
        other.post(f"leads/claims/{token}/extend", lease_s=60)[0],
        other.post(f"leads/claims/{token}/release")[0],
        other.post(f"leads/claims/{token}/settle", results=[{"lead": lead, "outcome": "done"}])[0],
    ]
    assert codes == [403] * 4 and LeadHold.objects.get().status == "held"


def test_a_lead_that_was_never_claimed_does_not_begin_and_is_not_settled(agent: Asking) -> None:
    leads(1)
    claim = claimed(agent, size=1)
    (foreign,) = leads(1)
    code, answer = agent.post(f"leads/claims/{claim['claim']}/leads/{foreign}/begin")
    assert (code, answer["detail"]) == (409, "the claim is lost")
    assert settle(agent, claim, foreign)["lost"] == [foreign]


def test_a_lead_begins_once_and_extending_and_giving_back_work(agent: Asking) -> None:
    every = leads(3)
    claim = claimed(agent, lease_s=10)
    assert [begin(agent, claim)[0] for _ in range(2)] == [200, 409]
    assert agent.get(f"leads/claims/{claim['claim']}/extend", lease_s=100)["lease_until"] > claim["lease_until"]
    assert agent.get(f"leads/claims/{claim['claim']}/release") == {"released": 2}
    assert LeadClaim.objects.get().ended_at is None
    assert ids(claimed(Asking())) == every[1:]
    settle(agent, claim, every[0], outcome="failed")
    assert LeadClaim.objects.get(token=claim["claim"]).end_reason == "done"
