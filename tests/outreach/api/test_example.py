"""The README's client against a real server: two of them on a thousand leads, and what is left when one is killed."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models import F

from outreach.flows.reaping import reap_all
from outreach.models import Claim, LeadClaim, LeadHold, Message, OutreachEvent, SendAttempt
from routing.models import Lead
from tests.make import make_email, make_team
from tests.outreach.api.asking import ROOT, Asking, example, served
from tests.outreach.make import make_running
from tests.outreach.relays import sink

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


def test_the_example_is_forty_lines() -> None:
    text = (ROOT / "docs" / "example_agent.py").read_text()
    assert sum(1 for line in text.splitlines() if line.strip()) <= 40


def test_the_readme_quotes_the_whole_example() -> None:
    readme = (ROOT / "README.md").read_text()
    assert (ROOT / "docs" / "example_agent.py").read_text() in readme
