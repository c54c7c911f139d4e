"""With Rota's ledger beside the logs: which mails are Rota's, and which layer let a double through."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from outreach.audit.copies import Copy
from outreach.audit.doubles import Try, judge
from outreach.flows.launching import launch
from outreach.flows.sender import send_due
from outreach.models import SendAttempt
from outreach.moves.doubt import it_did_not_go
from outreach.moves.settling import settle
from tests.outreach.audit.logs import LIMITS, audited, kinds, queued, tried
from tests.outreach.make import ACCEPTED, SILENCE, at_gate, hold, make_begun, make_campaign, make_running
from tests.outreach.relays import sink
from tests.outreach.test_sender import relay_at

pytestmark = pytest.mark.django_db(transaction=True)


def postfix(attempt: SendAttempt, *queues: str, minutes: int = 1) -> str:
    """Postfix's log of a mail of the ledger, delivered once for each queue id, some minutes apart."""
    address, log = attempt.message.enrolment.address, ""
    for number, queue in enumerate(queues):
        at = (attempt.begun_at + timedelta(minutes=minutes * number)).strftime("%b %d %H:%M:%S")
        log += queued(queue, at=at, mail_id=attempt.mail_id.strip("<>")) + tried(queue, at=at, to=address)
    return log


def tried_once(**fields: Any) -> SendAttempt:
    """A mail that was handed over once, under a Message-ID of its own."""
    held, attempt = make_begun(**fields)
    settle(attempt_id=attempt.pk, outcome=ACCEPTED, worker=held.worker, token=held.token)
    return renamed(attempt)


def renamed(attempt: SendAttempt) -> SendAttempt:
    SendAttempt.objects.filter(message=attempt.message_id).update(mail_id=f"<{attempt.message_id}@rota.example>")
    return SendAttempt.objects.select_related("message__enrolment").get(pk=attempt.pk)


def test_what_rota_handed_over_once_and_a_relay_delivered_twice_is_no_layers_fault(tmp_path: Path) -> None:
    (double,) = audited(tmp_path, postfix(tried_once(), "A0001", "A0002")).doubles
    assert (double.layer, double.kind) == ("none", "retry") and "handed it over once" in double.layer_because


def test_a_mail_that_is_not_in_the_ledger_was_another_senders(tmp_path: Path) -> None:
    attempt = tried_once()
    address = attempt.message.enrolment.address
    at = attempt.begun_at.strftime("%b %d %H:%M:%S")
    log = (
        postfix(attempt, "A0001") + queued("B0001", at=at, mail_id="9.9.w9@send-9") + tried("B0001", at=at, to=address)
    )
    found = audited(tmp_path, log)
    assert [one.layer for one in found.doubles] == ["none"] and found.ledger and found.in_ledger == 1
    assert "only 1 of them went through Rota" in found.doubles[0].layer_because
    alone = audited(tmp_path, log, use_ledger=False)
    assert not alone.ledger and alone.mailed_twice == 1


def test_a_person_who_had_it_sent_again_is_named(tmp_path: Path) -> None:
    campaign = make_running()
    held = hold(campaign)
    gate = at_gate(held)
    settle(attempt_id=gate.attempt, outcome=SILENCE, worker="w1", token=held.token)  # type: ignore[union-attr]
    SendAttempt.objects.update(begun_at=SendAttempt.objects.get().begun_at - timedelta(days=1))
    it_did_not_go(attempt_id=SendAttempt.objects.get().pk, by="Robin", reason="the relay's log lost it")
    second = hold(campaign, worker="w2")
    settle(attempt_id=at_gate(second).attempt, outcome=ACCEPTED, worker="w2", token=second.token)  # type: ignore[union-attr]
    log = postfix(renamed(SendAttempt.objects.order_by("pk")[1]), "A0001", "A0002")
    (double,) = audited(tmp_path, log).doubles
    assert double.layer == "person" and double.layer_because.startswith("Robin said")


@pytest.mark.parametrize(
    "worker, held_from, layer, failed",
    [("w2", 5, "job lock", "job lock, claim, gate"), ("w1", 5, "claim", "claim, gate"), ("w2", 99, "gate", "gate")],
)
def test_two_live_intents_are_the_gates_fault_and_overlapping_claims_that_of_the_layers_above_it(
    worker: str, held_from: float, layer: str, failed: str
) -> None:
    """Pure: the database refuses such a ledger."""
    first = Try("w1", "1", "1", "accepted", begun_at=2, claim=1, held_from=1, held_until=50)
    second = Try(worker, "1", "1", "accepted", begun_at=held_from + 1, claim=2, held_from=held_from, held_until=120)
    copies = [Copy("A1#0", "postfix", at, mail_id="m@x", worker="mx1") for at in (2.0, held_from + 1)]
    judged = judge(address="ann@a.example", copies=copies, ledger={"m@x": [first, second]}, limits=LIMITS)
    (double,) = judged.doubles
    assert double.layer == layer and double.layer_because.endswith(f"failed: {failed}")


def test_steps_of_one_campaign_are_a_series_and_mails_of_two_within_the_quiet_period_are_not(
    settings: Any, tmp_path: Path
) -> None:
    settings.QUIET_PERIOD_H = 0
    first = make_running(steps=2)
    second = make_campaign()
    with sink(tmp_path) as relay:
        relay_at(settings, relay.port)
        send_due(worker="w1")
        log = "".join(postfix(one, f"A000{one.pk % 10}") for one in tries())
        found = audited(tmp_path, log)
        assert not found.doubles and found.series == 1 and found.in_ledger == 2
        launch(campaign_id=second.pk, leads=[first.enrolments.get().lead_id], by="another")
        send_due(worker="w2")
    log = "".join(postfix(one, f"A{one.pk:05}") for one in tries())
    found = audited(tmp_path, log)
    assert kinds(found) == ["two_campaigns"] and found.doubles[0].layer == "gate"


def tries() -> list[SendAttempt]:
    return list(SendAttempt.objects.select_related("message__enrolment").order_by("pk"))


def test_a_mail_in_doubt_that_the_log_shows_as_delivered_is_counted(tmp_path: Path) -> None:
    _, attempt = make_begun()
    settle(attempt_id=attempt.pk, outcome=SILENCE, worker="w1")
    assert audited(tmp_path, postfix(renamed(attempt), "A0001")).in_doubt_delivered == 1


def test_the_command_exits_3_with_the_finding_0_without_and_2_on_what_is_no_log(tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit) as stopped:
        call_command(
            "audit_sends", "tests/cases/mail/postfix_double_send.log", "tests/cases/mail/esp_events.jsonl", "--json"
        )
    assert stopped.value.code == 3
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["files"]["tests/cases/mail/esp_events.jsonl"] == "events" and said["mailed_twice"] == len(
        said["doubles"]
    )
    assert said["kinds"]["retry"] == 1 and said["layers"] == {"none": said["mailed_twice"]}

    with pytest.raises(SystemExit) as stopped:
        call_command("audit_sends", "tests/cases/mail/esp_events.jsonl")
    text = capsys.readouterr().out
    assert stopped.value.code == 3
    assert "lead4@a.example: 2 mails, 5 s apart, by agent-1 and agent-2\n  parallel workers" in text

    log = tmp_path / "log"
    log.write_text(queued("A0001", at="Nov 29 10:00:00", mail_id="x@y") + tried("A0001", at="Nov 29 10:00:00"))
    call_command("audit_sends", str(log))
    assert "0 of them mailed twice" in capsys.readouterr().out
    log.write_text("Dear all,\nplease find attached\n")
    for words in (
        [str(log)],
        [str(tmp_path / "nothing")],
        ["--zone", "Mars/Base", "tests/cases/mail/esp_events.jsonl"],
    ):
        with pytest.raises(CommandError) as wrong:
            call_command("audit_sends", *words)
        assert wrong.value.returncode == 2


@pytest.mark.parametrize(
    "words, says",
    [
        (["--year", "99999"], "--year 99999"),
        (["--year", "0"], "--year 0"),
        (["--zone", "Europe"], "Europe is no time zone"),
        (["--zone", "../etc/passwd"], "is no time zone"),
    ],
)
def test_an_option_that_makes_no_sense_is_named_and_exits_2(words: list[str], says: str) -> None:
    with pytest.raises(CommandError, match=says) as wrong:
        call_command("audit_sends", *words, "tests/cases/mail/esp_events.jsonl")
    assert wrong.value.returncode == 2
