"""Whatever a relay, a provider or an agent answers can be kept, and a terminal does not obey it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from outreach.flows.notices import send_notices
from outreach.flows.sender import send_due
from outreach.mail.outcome import Outcome
from outreach.mail.reports import Report
from outreach.mail.storable import storable
from outreach.models import Message, NoticeMail, OutreachEvent, ProviderEvent, SendAttempt
from outreach.moves.feedback import take_in
from tests.make import make_team
from tests.outreach.api.asking import Asking
from tests.outreach.make import make_running
from tests.outreach.provider import provider
from tests.outreach.relays import scripted
from tests.outreach.test_hosted import sent, through
from tests.outreach.test_notices import assigned, notices_at
from tests.outreach.test_sender import relay_at

ODD = "ok\0queued \x1b[2J\ud800 é"
KEPT = "ok\ufffdqueued \ufffd[2J\ufffd é"


def test_a_text_is_kept_but_for_what_cannot_be_stored_or_steers_a_terminal() -> None:
    assert storable(ODD) == Outcome("accepted", "done", 250, ODD).reply == KEPT
    assert storable("a\r\nb\tc\u0085\n") == "a\nb\tc\ufffd\n"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("script", "status"),
    [({"dot": "250 ok\0queued"}, "sent"), ({"rcpt": "550 5.1.1 \0no such user"}, "failed"), ({"dot": "451 \0"}, "due")],
)
def test_a_relay_that_answers_with_nul_is_settled_as_any_other(
    settings: Any, script: dict[str, str], status: str
) -> None:
    make_running(leads=1)
    with scripted(script) as relay:
        relay_at(settings, relay.port)
        send_due(worker="w1")
    assert Message.objects.get().status == status
    assert "\ufffd" in SendAttempt.objects.get().reply


@pytest.mark.django_db(transaction=True)
def test_a_relay_that_answers_a_notice_with_nul_is_settled_too(settings: Any) -> None:
    with scripted({"dot": "250 ok\0queued"}) as relay:
        notices_at(settings, relay.port)
        assigned(make_team(reps=1), 1)
        assert send_notices(worker="w1").sent == 1
    assert (NoticeMail.objects.get().status, NoticeMail.objects.get().reply) == ("sent", "ok\ufffdqueued")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("code", "body", "status"),
    [
        (200, {"id": "n\0\ud8001"}, "accepted"),
        (400, b'{"name": "no\0", "message": "\xff\0"}', "deferred"),
        (500, b"\0\0", "in_doubt"),
    ],
)
def test_a_provider_that_answers_with_nul_is_settled_as_any_other(
    settings: Any, code: int, body: Any, status: str
) -> None:
    make_running()
    with provider("resend", (code, body)) as api:
        through(settings, api)
        sent()
    attempt = SendAttempt.objects.get()
    assert attempt.status == status and "\ufffd" in attempt.reply


@pytest.mark.django_db(transaction=True)
def test_an_agent_that_reports_nul_is_heard() -> None:
    make_running(leads=2)
    agent = Asking()
    claim = agent.get("mail/claims")
    path = f"mail/claims/{claim['claim']}"
    begun = agent.get(f"{path}/messages/{claim['messages'][0]['message']}/begin")
    said = {"claim": claim["claim"], "outcome": "sent", "reply": "250 ok\0queued"}
    assert agent.get(f"mail/attempts/{begun['attempt']}/settle", **said)["recorded"]
    assert SendAttempt.objects.get().reply == "250 ok\ufffdqueued"
    events = [{"event": "delivered", "message_id": begun["mail"]["message_id"], "id": "a\0", "reason": "ok\0"}]
    assert agent.get("mail/events", events=events)["new"] == 1
    assert ProviderEvent.objects.get().detail == "ok\ufffd"
    assert agent.get(f"{path}/release", reason="tired\0")["released"] == 1
    assert OutreachEvent.objects.filter(reason="tired\ufffd").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_provider_that_reports_nul_is_heard() -> None:
    report = Report("test", "1\0", ProviderEvent.Kind.BOUNCED, "", "a@acme.example", datetime.now(UTC), "550 \0\ud800")
    assert take_in(report) == "suppressed"
