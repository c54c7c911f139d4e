"""Only a mailbox that is plainly not there is suppressed; what a relay holds against us stops us and fails no lead."""

from collections import Counter
from typing import Any

import pytest

from outreach.flows.sender import send_due
from outreach.mail.outcome import outcome_of
from outreach.mail.refusals import about
from outreach.models import Message, SendingState, Suppression
from tests.outreach.make import make_running
from tests.outreach.relays import scripted
from tests.outreach.test_sender import relay_at

TABLE = [
    # the enhanced code says it
    ("550 5.1.1 <ann@relay-denied.example>: Recipient address rejected: User unknown", "mailbox"),
    ("550 5.1.1 spam policy", "mailbox"),
    ("550 5.1.2 no such domain", "mailbox"),
    ("550 5.1.6 moved", "mailbox"),
    ("556 5.1.10 null MX", "mailbox"),
    ("554 5.2.1 disabled", "mailbox"),
    ("552 5.2.2 mailbox full", "this mail"),
    ("550 5.4.1 Recipient address rejected: Access denied", "this mail"),
    ("550 5.7.1 blocked using zen.spamhaus.org", "us"),
    ("554 5.7.1 <ann@acme.example>: Relay access denied", "us"),
    ("550 5.7.1 user unknown", "us"),
    ("553 5.1.8 <pat@rota.example>: Sender address rejected: Domain not found", "us"),
    ("550 5.7.133 sender not authenticated for group", "this mail"),
    ("550 5.7.17 mailbox owner has changed", "this mail"),
    # it says nothing, the words do
    ("550 Relaying denied", "us"),
    ("550 relay not permitted", "us"),
    ("554 Blocked, see blacklist.example", "us"),
    ("550 rejected for policy reasons", "us"),
    ("550 authentication required", "us"),
    ("554 spam", "us"),
    ("550 5.1.0 <pat@rota.example>: Sender address rejected: User unknown in local recipient table", "us"),
    ("504 5.5.2 <localhost>: Helo command rejected: need fully-qualified hostname", "us"),
    ("550 Your account is disabled", "us"),
    ("550 No such user here", "mailbox"),
    ("550 unknown user", "mailbox"),
    ("550 <relaying@denied.example>: User unknown", "mailbox"),
    ("550 Mailbox not found", "mailbox"),
    ("550 The recipient does not exist", "mailbox"),
    ("550 Account disabled", "mailbox"),
    ("553 Invalid recipient", "mailbox"),
    ("551 User not known", "mailbox"),
    ("550 5.0.0 No such mailbox", "mailbox"),
    # nothing says it
    ("550 no", "this mail"),
    ("550 Requested action not taken: mailbox unavailable", "this mail"),
    ("554 no such user", "this mail"),
    ("552 mailbox full", "this mail"),
    # for now
    ("450 4.7.1 greylisted", "this mail"),
    ("450 4.2.1 user unknown", "this mail"),
    ("454 4.7.1 <ann@acme.example>: Relay access denied", "us"),
]


@pytest.mark.parametrize(("reply", "whom"), TABLE)
def test_a_refusal_is_about_whom_it_says(reply: str, whom: str) -> None:
    code, _, text = reply.partition(" ")
    assert about(code=int(code), reply=text) == whom


@pytest.mark.parametrize(
    ("phase", "code", "reply", "verdict", "fault"),
    [
        ("dot", 550, "5.1.1 nobody", "refused", "mailbox"),
        ("dot", 550, "no such user", "refused", "content"),
        ("dot", 550, "5.7.1 blocked", "deferred", "policy"),
        ("data", 554, "relaying denied", "deferred", "policy"),
        ("rcpt", 454, "4.7.1 relay access denied", "deferred", "policy"),
        ("rcpt", 550, "5.2.2 full", "refused", "recipient"),
        ("mail", 550, "5.1.1 no such user", "deferred", "sender"),
    ],
)
def test_a_refusal_is_read_by_its_phase_too(phase: str, code: int, reply: str, verdict: str, fault: str) -> None:
    outcome = outcome_of(phase=phase, code=code, reply=reply)
    assert (outcome.verdict, outcome.fault) == (verdict, fault)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "script",
    [
        {"rcpt": "550 Relaying denied"},
        {"rcpt": "554 5.7.1 Relay access denied"},
        {"rcpt": "454 4.7.1 Relay access denied"},
        {"dot": "550 5.7.1 blocked using zen.spamhaus.org"},
    ],
)
def test_what_a_relay_holds_against_us_stops_the_sender_and_fails_no_lead(
    settings: Any, script: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    make_running(leads=5)
    with scripted(script) as relay:
        relay_at(settings, relay.port)
        done, again = send_due(worker="w1"), send_due(worker="w2")
        assert (done.deferred, done.refused, again.deferred) == (1, 0, 0) and relay.connections == 1
    says = next(iter(script.values()))
    because = f"the relay refuses us: {says[:3]}"
    assert done.stopped == again.stopped == SendingState.objects.get().off_because == because
    assert Counter(Message.objects.values_list("status", flat=True)) == {"due": 5}
    assert not Suppression.objects.exists()
    assert because in caplog.text and says not in caplog.text  # the reply may name the recipient


@pytest.mark.django_db(transaction=True)
def test_one_mail_that_is_refused_by_somebodys_rules_again_and_again_does_not_stop_all_others_for_ever(
    settings: Any,
) -> None:
    make_running()
    settings.SEND_ATTEMPTS_MOST, settings.SEND_BACKOFF_FIRST_S = 2, 0
    with scripted({"rcpt": "550 5.7.1 not to this group"}) as relay:
        relay_at(settings, relay.port)
        for _ in range(2):
            SendingState.objects.update(off_because="", off_until=None)
            assert send_due(worker="w1").deferred == 1
    assert Message.objects.get().status == "failed" and not Suppression.objects.exists()
