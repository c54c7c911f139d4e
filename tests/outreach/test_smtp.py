"""The hand-over knows how far it came: every fault at every phase, by a relay that misbehaves on command."""

import socket
import threading
import time
from typing import Any

import pytest

from outreach.errors import CredentialsRefused, RoadClosed
from outreach.mail import smtp
from outreach.mail.compose import Mail
from outreach.mail.outcome import Outcome, outcome_of
from outreach.mail.smtp import Relay, stuffed
from outreach.mail.timing import before_dot_s, longest_batch_s, longest_handover_s
from tests.outreach.relays import DROP, ScriptedRelay, Stall, scripted

MAIL = Mail("pat@rota.example", "ann@acme.example", "<m@rota.example>", b"Subject: hi\r\n\r\n.hello\r\n", False)


def hand_over(settings: Any, relay: ScriptedRelay, mail: Mail = MAIL) -> Outcome:
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", relay.port
    settings.EMAIL_PHASE_TIMEOUT_S, settings.EMAIL_REPLY_TIMEOUT_S = 1, 1
    with Relay() as connection:
        connection.ready()
        return connection.hand_over(mail)


@pytest.mark.parametrize(
    ("script", "verdict", "fault"),
    [
        ({}, "accepted", ""),
        ({"quit": DROP}, "accepted", ""),
        ({"mail": "421 busy"}, "deferred", "road"),
        ({"mail": "451 later"}, "deferred", "road"),
        ({"mail": "550 5.7.1 not your address"}, "deferred", "sender"),
        ({"mail": "530 5.7.0 log in"}, "deferred", "sender"),
        ({"mail": "552 5.3.4 too large"}, "refused", "content"),
        ({"mail": DROP}, "deferred", "road"),
        ({"mail": Stall(DROP)}, "deferred", "road"),
        ({"rcpt": "450 greylisted"}, "deferred", "recipient"),
        ({"rcpt": "421 closing"}, "deferred", "road"),
        ({"rcpt": "550 no such user"}, "refused", "mailbox"),
        ({"rcpt": "550 no"}, "refused", "recipient"),
        ({"rcpt": "550 5.7.1 relaying denied"}, "deferred", "policy"),
        ({"rcpt": "535 5.7.8 who are you"}, "deferred", "sender"),
        ({"rcpt": DROP}, "deferred", "road"),
        ({"rcpt": Stall(DROP)}, "deferred", "road"),
        ({"data": "451 local error"}, "deferred", "content"),
        ({"data": "554 no valid recipients"}, "refused", "content"),
        ({"data": "250 what"}, "deferred", "road"),
        ({"data": DROP}, "deferred", "road"),
        ({"data": Stall(DROP)}, "deferred", "road"),
        ({"dot": "451 later"}, "deferred", "content"),
        ({"dot": "421 shutting down"}, "deferred", "road"),
        ({"dot": "554 too many links"}, "refused", "content"),
        ({"dot": "554 spam"}, "deferred", "policy"),
        ({"dot": DROP}, "in_doubt", "road"),
        ({"dot": Stall(DROP)}, "in_doubt", "road"),
        ({"dot": "sorry?"}, "in_doubt", "road"),
        ({"dot": "354 go on"}, "in_doubt", "road"),
    ],
)
def test_each_fault_is_definite_or_in_doubt_as_its_phase_says(
    settings: Any, script: dict[str, str | Stall], verdict: str, fault: str
) -> None:
    with scripted(script) as relay:
        outcome = hand_over(settings, relay)
    assert (outcome.verdict, outcome.fault) == (verdict, fault), outcome


def test_a_connection_that_breaks_within_the_body_is_a_definite_no(settings: Any) -> None:
    large = Mail(MAIL.sender, MAIL.recipient, MAIL.mail_id, b"x" * 70 + b"\r\n" * 1 + b"y" * 16_000_000, False)
    with scripted({"body": DROP}) as relay:
        outcome = hand_over(settings, relay, large)
        assert relay.seen == []
    assert (outcome.verdict, outcome.phase) == ("deferred", "body")


def test_a_relay_that_does_not_read_the_body_is_a_definite_no(settings: Any) -> None:
    large = Mail(MAIL.sender, MAIL.recipient, MAIL.mail_id, b"y" * 16_000_000, False)
    with scripted({"body": Stall(DROP)}) as relay:
        outcome = hand_over(settings, relay, large)
    assert (outcome.verdict, outcome.phase) == ("deferred", "body")


def test_a_relay_that_drips_its_reply_cannot_stretch_the_deadline(settings: Any) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        sock, _ = listener.accept()
        with sock:
            try:
                sock.sendall(b"220 hi\r\n")
                sock.recv(1_000)
                sock.sendall(b"250 hi\r\n")
                sock.recv(1_000)
                for byte in b"250-slow\r\n" * 50:
                    sock.sendall(bytes([byte]))
                    time.sleep(0.1)
            except OSError:
                pass

    threading.Thread(target=drip, daemon=True).start()
    settings.EMAIL_HOST, settings.EMAIL_PORT = listener.getsockname()
    settings.EMAIL_PHASE_TIMEOUT_S = 1
    with listener, Relay() as connection:
        connection.ready()
        began = time.monotonic()
        outcome = connection.hand_over(MAIL)
    assert time.monotonic() - began < 2
    assert (outcome.verdict, outcome.phase) == ("deferred", "mail")


def test_a_process_held_up_before_the_final_dot_does_not_send_it(settings: Any, monkeypatch: Any) -> None:
    late = {"by": 0.0}
    monkeypatch.setattr(smtp, "now_s", lambda: time.monotonic() + late["by"])

    def hold_up() -> str:
        late["by"] = before_dot_s() + 1
        return "354 go on"

    settings.EMAIL_PHASE_TIMEOUT_S = 1
    with scripted({"data": hold_up}) as relay:
        outcome = hand_over(settings, relay)
        assert relay.seen == []
    assert outcome.verdict == "deferred"


def test_there_is_one_command_of_each_kind_and_no_retry(settings: Any) -> None:
    with scripted({"rcpt": "450 later"}) as relay:
        hand_over(settings, relay)
    verbs = [line.split()[0].lower() for line in relay.commands]
    assert (verbs.count("mail"), verbs.count("rcpt"), verbs.count("data")) == (1, 1, 0)


def test_a_refused_login_is_told_from_a_relay_that_cannot_check_it(settings: Any) -> None:
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "rota", "secret"
    with scripted({"auth": "535 5.7.8 no"}, extensions=("AUTH PLAIN",)) as relay, pytest.raises(CredentialsRefused):
        hand_over(settings, relay)
    with scripted({"auth": "454 4.7.0 later"}, extensions=("AUTH PLAIN",)) as relay:
        with pytest.raises(RoadClosed) as closed:
            hand_over(settings, relay)
        assert not isinstance(closed.value, CredentialsRefused)


def test_an_idle_connection_that_died_is_replaced_before_the_mail(settings: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(smtp, "IDLE_MOST_S", -1)
    with scripted({"noop": DROP}) as relay:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", relay.port
        settings.EMAIL_PHASE_TIMEOUT_S, settings.EMAIL_REPLY_TIMEOUT_S = 1, 1
        with Relay() as connection:
            for _ in range(2):
                connection.ready()
                assert connection.hand_over(MAIL).verdict == "accepted"
        assert relay.connections == 2


def test_the_body_is_dot_stuffed_and_ends_its_lines_in_crlf() -> None:
    assert stuffed(b"a\n.b\r\n..c\rd") == b"a\r\n..b\r\n...c\r\nd\r\n"


def test_a_reply_is_read_by_its_phase() -> None:
    assert outcome_of(phase="dot", code=250, reply="ok").verdict == "accepted"
    assert outcome_of(phase="rcpt", code=452, reply="full").charged
    assert not outcome_of(phase="mail", code=451, reply="later").charged


def test_the_longest_batch_is_what_settings_and_checks_say_it_is(settings: Any) -> None:
    assert longest_batch_s() == settings.SEND_LONGEST_S
    assert longest_handover_s() < longest_batch_s() < settings.CLAIM_LEASE_S
