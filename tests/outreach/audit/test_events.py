"""Provider events and tables: many shapes, one meaning; replays and engagement are no second mail."""

from pathlib import Path
from typing import Any

import pytest

from outreach.flows.auditing import audit
from tests.outreach.audit.logs import CLOCK, LIMITS, audited, kinds, lines, queued, tried

pytestmark = pytest.mark.django_db


def sendgrid(event: str, message: str, at: int, **more: Any) -> dict[str, Any]:
    ids = {"sg_event_id": f"{event}{message}", "sg_message_id": f"{message}.filter0001.16648.5515E0B88.0"}
    return {"email": "ann@a.example", "event": event, "timestamp": at, **ids, **more}


def postmark(kind: str, message: str, at: str, **more: Any) -> dict[str, Any]:
    return {"RecordType": kind, "MessageID": message, "Recipient": "ann@a.example", "DeliveredAt": at, **more}


def mailgun(event: str, message: str, at: float, **more: Any) -> dict[str, Any]:
    headers = {"headers": {"message-id": message, "to": "Ann <ann@a.example>", "subject": "News"}}
    data = {"event": event, "timestamp": at, "id": f"{event}{at}", "recipient": "ann@a.example", "message": headers}
    return {"signature": {"timestamp": "1"}, "event-data": {**data, **more}}


def ses(kind: str, message: str, at: str, worker: str) -> dict[str, Any]:
    mail = {"timestamp": at, "messageId": message, "source": "sales@rota.example", "destination": ["ann@a.example"]}
    mail |= {"headers": [{"name": "Message-ID", "value": f"<{message}@x>"}], "tags": {"worker": [worker]}}
    part = {"Delivery": {"delivery": {"recipients": ["ann@a.example"], "timestamp": at}}}
    part |= {"Bounce": {"bounce": {"bouncedRecipients": [{"emailAddress": "ann@a.example"}], "timestamp": at}}}
    return {"eventType": kind, "mail": mail, **part.get(kind, {})}


def test_two_agents_seconds_apart_in_the_sample() -> None:
    found = audit(files=[Path("tests/cases/mail/esp_events.jsonl")], clock=CLOCK, limits=LIMITS)
    assert [(one.address, one.apart_s) for one in found.doubles] == [("lead4@a.example", 5), ("lead9@a.example", 5)]
    assert found.doubles[0].workers == ("agent-1", "agent-2") and kinds(found) == ["parallel_workers"] * 2


@pytest.mark.parametrize(
    "first, second",
    [
        (sendgrid("delivered", "m1", 1795946400, worker="w1"), sendgrid("delivered", "m2", 1795946407, worker="w2")),
        (
            postmark("Delivery", "m1", "2026-11-29T10:00:00Z", Metadata={"worker": "w1"}),
            postmark("Delivery", "m2", "2026-11-29T10:00:07.0000000Z", Metadata={"worker": "w2"}),
        ),
        (
            mailgun("delivered", "m1@x", 1795946400.5, **{"user-variables": {"worker": "w1"}}),
            mailgun("delivered", "m2@x", 1795946407.5, **{"user-variables": {"worker": "w2"}}),
        ),
        (
            ses("Delivery", "m1", "2026-11-29T10:00:00.000Z", "w1"),
            ses("Delivery", "m2", "2026-11-29T10:00:07.000Z", "w2"),
        ),
        (
            {
                "type": "email.delivered",
                "created_at": "2026-11-29T10:00:00Z",
                "data": {"email_id": "m1", "to": ["ann@a.example"], "worker": "w1"},
            },
            {
                "type": "email.delivered",
                "created_at": "2026-11-29T10:00:07Z",
                "data": {"email_id": "m2", "to": ["ann@a.example"], "worker": "w2"},
            },
        ),
        (
            {"to": "Ann <ANN@a.example>", "sent_at": "2026-11-29 10:00:00", "agent": "w1"},
            {"to": "ann@a.example", "sent_at": "2026-11-29 10:00:07", "agent": "w2"},
        ),
    ],
    ids=["SendGrid", "Postmark", "Mailgun", "SES", "Resend", "plain"],
)
def test_two_mails_seven_seconds_apart_in_every_shape(tmp_path: Path, first: Any, second: Any) -> None:
    found = audited(tmp_path, lines(first, first, second))  # the first webhook came twice
    assert [one.apart_s for one in found.doubles] == [7] and not found.read.bad_lines
    assert found.doubles[0].workers == ("w1", "w2") and kinds(found) == ["parallel_workers"]
    as_list = "[\n" + lines(first).rstrip() + ",\n" + lines(second) + "]\n"
    assert kinds(audited(tmp_path, as_list)) == ["parallel_workers"]


def test_the_life_of_one_mail_is_one_mail(tmp_path: Path) -> None:
    at = 1795946400
    life = [
        sendgrid(event, "m1", at + n, **({"smtp-id": "<m1@x>"} if n < 4 else {}))
        for n, event in enumerate(("processed", "deferred", "deferred", "delivered", "open", "open", "click"))
    ]
    assert not audited(tmp_path, lines(*life)).doubles
    assert not audited(
        tmp_path,
        lines(
            mailgun("accepted", "m@x", 1.0),
            mailgun("failed", "m@x", 2.0, severity="temporary"),
            mailgun("delivered", "m@x", 9.0),
        ),
    ).doubles


def test_what_bounced_or_was_dropped_did_not_arrive(tmp_path: Path) -> None:
    gone = [sendgrid("processed", "m1", 1), sendgrid("bounce", "m1", 2), sendgrid("dropped", "m2", 3)]
    assert not audited(tmp_path, lines(*gone, sendgrid("delivered", "m3", 4))).doubles
    both = [ses("Send", "m1", "2026-11-29T10:00:00Z", "w1"), ses("Bounce", "m1", "2026-11-29T10:00:01Z", "w1")]
    assert not audited(tmp_path, lines(*both, ses("Delivery", "m2", "2026-11-29T10:00:09Z", "w1"))).doubles


def test_an_event_in_the_envelope_of_a_notification(tmp_path: Path) -> None:
    import json

    both = [ses("Delivery", f"m{n}", f"2026-11-29T10:00:0{n}Z", f"w{n}") for n in (1, 2)]
    wrapped = [
        {"Type": "Notification", "Timestamp": "2026-11-29T11:00:00Z", "Message": json.dumps(one)} for one in both
    ]
    assert kinds(audited(tmp_path, lines(*wrapped))) == ["parallel_workers"]


def test_the_relays_log_and_the_providers_events_tell_of_one_mail(tmp_path: Path) -> None:
    at = "Nov 29 10:00:00"
    log = queued("A0001", at=at, mail_id="m1@x") + tried("A0001", at=at)
    event = {
        "event": "delivered",
        "email": "ann@a.example",
        "message_id": "<m1@x>",
        "worker": "w1",
        "timestamp": 1795946401,
    }
    assert not audited(tmp_path, log, lines(event)).doubles
    log += queued("A0002", at=at, mail_id="m1@x") + tried("A0002", at="Nov 29 10:01:00")
    (double,) = audited(tmp_path, log, lines(event)).doubles
    assert len(double.copies) == 2 and double.kind == "retry"


def test_two_campaigns_and_two_steps_of_one(tmp_path: Path) -> None:
    def mail(n: int, **more: str) -> dict[str, Any]:
        return {
            "email": "ann@a.example",
            "message_id": f"{n}@x",
            "timestamp": 1795946400 + 60 * n,
            "worker": "w1",
            **more,
        }

    two = audited(tmp_path, lines(mail(1, campaign="autumn"), mail(2, campaign="winter")))
    assert kinds(two) == ["two_campaigns"] and two.doubles[0].sure
    steps = audited(tmp_path, lines(mail(1, campaign="autumn", step="1"), mail(2, campaign="autumn", step="2")))
    assert not steps.doubles and steps.series == 1
    same = audited(tmp_path, lines(mail(1, campaign="autumn", step="1"), mail(9_000, campaign="autumn", step="1")))
    assert kinds(same) == ["retry"], "the same step again is a double, however much later"
    later = audited(tmp_path, lines(mail(1), mail(9_000)))
    assert not later.doubles and later.far_apart == 1


def test_the_host_of_the_sender_is_a_worker_and_without_one_nothing_is_guessed(tmp_path: Path) -> None:
    rows = ["lead4@a.example,2026-11-29 10:04:00,send-1,<m4.0@send-1>"]
    rows += ["lead4@a.example,2026-11-29 10:04:05,send-2,<m4.1@send-2>"]
    named = audited(tmp_path, "\n".join(["Recipient,Sent at,Sender host,Message ID", *rows]) + "\n")
    assert kinds(named) == ["parallel_workers"] and named.doubles[0].workers == ("send-1", "send-2")
    unnamed = "Recipient,Sent at,Message ID\n" + "".join(
        f"lead4@a.example,2026-11-29 10:04:0{n},{n}f@rota.example\n" for n in range(2)
    )
    (double,) = audited(tmp_path, unnamed).doubles
    assert (double.kind, double.sure, double.workers) == ("unknown", False, ("unknown",))
    assert double.because == "the log does not name the workers" and double.as_dict()["in_rota_held_by"] == "gate"
    hosts = audited(tmp_path, unnamed.replace("0f@rota", "0f@other")).doubles[0]
    assert (hosts.kind, hosts.sure) == ("parallel_workers", False), "two hosts make it likely"
    half = [
        {"email": "ann@a.example", "id": n, "ts": 1795946400 + n, **({"worker": "w1"} if n else {})} for n in (0, 1)
    ]
    assert kinds(audited(tmp_path, lines(*half))) == ["unknown"]


@pytest.mark.parametrize(
    "header",
    [
        "E-Mail-Adresse;Gesendet am;Absender-Host",
        "Empfänger;Zeitpunkt;Server",
        "Correo electrónico;Fecha;Worker",
        "Adresse e-mail;Date d'envoi;Serveur",
        "Contact Email;Sent date;Sending server",
        "Work Email;Date/Time;MTA",
        "メールアドレス;Sent at;Worker",
    ],
)
def test_columns_are_known_by_the_names_that_imports_of_leads_know(tmp_path: Path, header: str) -> None:
    rows = "".join(f"ann@a.example;29.11.2026 10:00:0{n};w{n}\n" for n in range(2))
    (double,) = audited(tmp_path, f"{header}\n{rows}").doubles
    assert (double.kind, double.apart_s, double.workers) == ("parallel_workers", 1, ("w0", "w1"))


def test_three_workers_make_one_double_of_three_mails(tmp_path: Path) -> None:
    mails = [{"email": "ann@a.example", "id": n, "ts": 1795946400 + n, "worker": f"w{n}"} for n in range(3)]
    (double,) = audited(tmp_path, lines(*mails)).doubles
    assert len(double.copies) == 3 and double.workers == ("w0", "w1", "w2") and double.apart_s == 2


def test_bad_lines_are_counted_and_shown_and_spoil_no_other(tmp_path: Path) -> None:
    text = '{"event": "delivered"\n{"event": "levitated", "email": "ann@a.example"}\n{"event": "delivered"}\n42\n'
    text += '{"event": "delivered", "email": "nobody"}\n{"event": "sent", "email": "ann@a.example", "ts": "soon"}\n'
    text += lines({"event": "unsubscribe", "email": "ann@a.example"}, sendgrid("delivered", "m1", 1))
    found = audited(tmp_path, text)
    assert found.read.bad_lines == 6 and found.read.lines == 8 and found.addresses == 1
    assert [bad["why"] for bad in found.read.bad][1:5] == [
        "event “levitated” is unknown",
        "no address in it",
        "no JSON object",
        "nobody is no address",
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_with_one_mail_in_each_row(tmp_path: Path, delimiter: str) -> None:
    rows = ["Email,Message-ID,Worker,Sent at,Status"]
    rows += ["ann@a.example,<1@x>,w1,2026-11-29T10:00:00Z,sent", "Ann@a.example,<2@x>,w2,2026-11-29T10:00:07Z,250 OK"]
    rows += ["bo@a.example,<3@x>,w1,2026-11-29T10:00:00Z,bounced", "bo@a.example,<4@x>,w1,2026-11-29T10:01:00Z,sent"]
    rows += ["too,short"]
    found = audited(tmp_path, "".join(row.replace(",", delimiter) + "\r\n" for row in rows))
    assert [one.address for one in found.doubles] == ["ann@a.example"] and kinds(found) == ["parallel_workers"]
    assert found.read.bad_lines == 1 and found.read.bad[0]["line"] == 6
