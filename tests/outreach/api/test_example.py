"""The README's client against a real server: two of them on a thousand leads, and what is left when one is killed."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models import F

from outreach.flows.reaping import reap_all
from outreach.models import Claim, Enrolment, LeadClaim, LeadHold, Message, OutreachEvent, SendAttempt, Suppression
from routing.models import Lead
from tests.make import make_email, make_team
from tests.outreach.api.asking import ROOT, Asking, example, served
from tests.outreach.make import make_running
from tests.outreach.relays import DROP, Script, Stall, scripted, sink

pytestmark = pytest.mark.django_db(transaction=True)

LEADS, WAIT_S = 1_000, 600


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.1)


def lines(log: Path) -> Counter[str]:
    return Counter(log.read_text().split())


def test_two_agents_work_on_a_thousand_leads_disjointly_and_completely_though_one_is_killed(tmp_path: Path) -> None:
    team, agents = make_team(), [Asking(), Asking()]
    Lead.objects.bulk_create([Lead(team=team, email=make_email()) for _ in range(LEADS)])
    logs = [tmp_path / "first", tmp_path / "second"]
    with (
        served(AGENT_RATE_PER_MIN="1000000") as url,
        example(url, agents[0].token, "leads", "call", team.pk, log=logs[0]) as first,
        example(url, agents[1].token, "leads", "call", team.pk, log=logs[1]) as second,
    ):
        wait_for(lambda: sum(lines(logs[0]).values()) > 50)
        first.kill()
        first.wait()
        ago = timedelta(seconds=61)  # its lease of a minute
        LeadClaim.objects.filter(worker=agents[0].worker, ended_at=None).update(
            claimed_at=F("claimed_at") - ago, lease_until=F("lease_until") - ago
        )
        assert second.wait(WAIT_S) == 0
    worked_on = lines(logs[0]) + lines(logs[1])
    assert set(worked_on.values()) == {1}, "nobody twice"
    by_status = Counter(LeadHold.objects.values_list("status", flat=True))
    missing = set(map(str, Lead.objects.values_list("pk", flat=True))) - set(worked_on)
    assert by_status["done"] + by_status["in_doubt"] == LEADS and by_status["in_doubt"] <= 1
    assert len(missing) <= by_status["in_doubt"]
    assert not LeadHold.objects.filter(status__in=LeadHold.OPEN).exists()
    print(f"{LEADS} leads: {len(lines(logs[0]))} + {len(lines(logs[1]))} worked on, {dict(by_status)}")


def test_two_agents_mail_a_list_at_most_once_each_though_one_is_killed(tmp_path: Path) -> None:
    campaign, agents = make_running(leads=300), [Asking(), Asking()]
    log = tmp_path / "log"
    with (
        sink(tmp_path) as relay,
        served(AGENT_RATE_PER_MIN="1000000") as url,
        example(url, agents[0].token, "mail", campaign.pk, "127.0.0.1", relay.port, log=log) as first,
        example(url, agents[1].token, "mail", campaign.pk, "127.0.0.1", relay.port, log=log) as second,
    ):
        wait_for(lambda: SendAttempt.objects.filter(worker=agents[0].worker).count() > 30)
        first.kill()
        first.wait()
        ago = timedelta(hours=1)
        Claim.objects.filter(worker=agents[0].worker, ended_at=None).update(
            claimed_at=F("claimed_at") - ago, lease_until=F("lease_until") - ago
        )
        reap_all()
        assert second.wait(WAIT_S) == 0
        taken = relay.addresses()
    by_status = Counter(Message.objects.values_list("status", flat=True))
    assert set(taken.values()) == {1}, "nobody twice"
    assert by_status["sent"] + by_status["in_doubt"] == 300 and by_status["in_doubt"] <= 1
    assert len(taken) >= by_status["sent"]
    assert set(OutreachEvent.objects.filter(kind="sent").values_list("worker", flat=True)) == {
        agent.worker for agent in agents
    }
    print(f"300 mails: {dict(by_status)}, the relay took {len(taken)}")


REPLIES = {
    "a@acme.example": ("", "sent", ""),
    "dead@acme.example": ("550 5.1.1 nobody here", "failed", "refused by mailbox"),
    "full@acme.example": ("452 4.2.2 full", "due", ""),
    "no@acme.example": ("554 5.7.1 not from you", "failed", "refused by policy"),
    "jörg@acme.example": ("", "failed", "refused by recipient"),
}


def test_the_example_tells_whose_refusal_it_was_and_goes_on(tmp_path: Path) -> None:
    campaign, agent = make_running(leads=len(REPLIES)), Asking()
    recipients: dict[str, Message] = {}
    for address, message in zip(REPLIES, Message.objects.order_by("pk"), strict=True):
        Enrolment.objects.filter(pk=message.enrolment_id).update(address=address)
        recipients[address] = message
    replies: list[str | Stall] = [reply for reply, _, _ in REPLIES.values()][:4]
    with scripted({"rcpt": replies}) as relay, served() as url:
        words = ("mail", campaign.pk, "127.0.0.1", relay.port)
        with example(url, agent.token, *words, log=tmp_path / "log") as client:
            assert client.wait(WAIT_S) == 0
    for address, (_, status, reason) in REPLIES.items():
        message = recipients[address]
        message.refresh_from_db()
        assert (address, message.status, message.reason) == (address, status, reason)
    assert Suppression.objects.get().recipient_id == recipients["dead@acme.example"].recipient_id
    assert "no SMTPUTF8" in SendAttempt.objects.get(message=recipients["jörg@acme.example"]).reply


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ({"dot": "554 5.7.1 spam"}, "failed", "refused by content"),
        ({"dot": "451 later"}, "due", ""),
        ({"mail": "530 log in"}, "due", ""),
        ({"dot": DROP}, "in_doubt", ""),
    ],
)
def test_the_example_settles_every_end_of_a_mail(tmp_path: Path, script: Script, status: str, reason: str) -> None:
    campaign = make_running()
    with scripted(script) as relay, served() as url:
        words = ("mail", campaign.pk, "127.0.0.1", relay.port)
        with example(url, Asking().token, *words, log=tmp_path / "log") as client:
            assert client.wait(WAIT_S) == 0
    message = Message.objects.get()
    assert (message.status, message.reason) == (status, reason)
    assert not Suppression.objects.exists()


def test_the_example_writes_to_a_name_outside_ascii_where_the_relay_can(tmp_path: Path) -> None:
    campaign = make_running()
    Enrolment.objects.update(address="jörg@acme.example")
    with scripted(extensions=("SMTPUTF8", "8BITMIME")) as relay, served() as url:
        words = ("mail", campaign.pk, "127.0.0.1", relay.port)
        with example(url, Asking().token, *words, log=tmp_path / "log") as client:
            assert client.wait(WAIT_S) == 0
        assert relay.kept == ["jörg@acme.example"]
    assert Message.objects.get().status == "sent"


def test_the_example_is_short() -> None:
    text = (ROOT / "docs" / "example_agent.py").read_text()
    assert sum(1 for line in text.splitlines() if line.strip()) <= 50


def test_the_readme_quotes_the_whole_example() -> None:
    readme = (ROOT / "README.md").read_text()
    assert (ROOT / "docs" / "example_agent.py").read_text() in readme
