"""Logs as they are found: system logs with something before each line, and what providers' interfaces export."""

import json
from pathlib import Path
from typing import Any

import pytest

from outreach.flows.auditing import audit
from tests.outreach.audit.logs import CLOCK, LIMITS, audited, kinds, lines, queued, tried

pytestmark = pytest.mark.django_db

AT = "2026-11-29T10:00:0"


@pytest.mark.parametrize(
    "before",
    [
        "2026-11-29T10:00:0{}.123456+01:00 mx1 ",
        "Sun 2026-11-29 10:00:0{} UTC mx1 ",
        "Sun 2026-11-29 10:00:0{} CET mx1 ",
        "2026-11-29T10:00:0{}+0000 mx1 ",
        "postfix_1  | Nov 29 10:00:0{} mx1 ",
        "2026-11-29T10:00:09.123456789Z stdout F Nov 29 10:00:0{} mx1 ",
        "2026-11-29T10:00:0{}.123456+00:00 ",
    ],
)
@pytest.mark.parametrize("program", ["postfix", "postfix-out", "postfix/submission"])
def test_a_system_log_with_whatever_stands_before_its_lines(tmp_path: Path, before: str, program: str) -> None:
    log = "-- Journal begins at Sun 2026-11-29 09:00:00 UTC, ends at Sun 2026-11-29 12:00:00 UTC. --\n"
    for n in range(2):
        queue, mail_id = f"4fXy2z0Bz3Kz1A{n}", f"{n}.3.w{n}@send-{n}"
        log += (queued(queue, at="AT", mail_id=mail_id) + tried(queue, at="AT")).replace("AT mx1 ", before.format(n))
    found = audited(tmp_path, log.replace(" postfix/", f" {program}/"))
    assert kinds(found) == ["parallel_workers"] and found.doubles[0].apart_s == 1 and not found.read.bad_lines


def test_a_log_after_rfc_5424_and_an_alias_that_is_no_address(tmp_path: Path) -> None:
    rest = "A000{}: to=<ann@a.example>, orig_to=<root>, relay=local, status=sent (delivered)\n"
    log = "".join(f"<22>1 {AT}{n}.003Z mx1 postfix/local 13 - - {rest.format(n)}" for n in range(2))
    found = audited(tmp_path, log)
    assert [one.address for one in found.doubles] == ["ann@a.example"] and not found.read.bad_lines


@pytest.mark.parametrize(
    "entry",
    [
        {"__REALTIME_TIMESTAMP": "179594640{n}000000", "_HOSTNAME": "mx1", "SYSLOG_IDENTIFIER": "postfix/smtp"},
        {"log": "Nov 29 10:00:0{n} mx1 postfix/smtp[3]: {line}\n", "stream": "stdout", "time": "2026-11-29T10:00:09Z"},
        {"@timestamp": "2026-11-29T10:00:09Z", "message": "Nov 29 10:00:0{n} mx1 postfix/smtp[3]: {line}"},
    ],
    ids=["journal", "container", "collector"],
)
def test_postfixs_lines_inside_json(tmp_path: Path, entry: dict[str, str]) -> None:
    log = []
    for n in range(2):
        line = f"A000{n}: to=<ann@a.example>, relay=x, status=sent (250 ok)"
        log.append({name: text.format(n=n, line=line) for name, text in {"MESSAGE": "{line}", **entry}.items()})
        if "SYSLOG_IDENTIFIER" not in entry:
            del log[-1]["MESSAGE"]
    found = audited(tmp_path, lines(*log, {**log[0], "SYSLOG_IDENTIFIER": "sshd", "MESSAGE": "hello", "log": ""}))
    assert [one.apart_s for one in found.doubles] == [1] and not found.read.bad_lines


def ses(n: int) -> dict[str, Any]:
    mail = {"timestamp": f"{AT}{n}.000Z", "source": "s@rota.example", "messageId": f"0100{n}"}
    mail |= {"destination": ["ann@a.example"], "tags": {"ses:source-ip": [f"10.0.0.{n}"]}}
    return {"eventType": "Delivery", "mail": mail, "delivery": {"recipients": ["ann@a.example"]}}


def sns(n: int) -> dict[str, Any]:
    return {"Type": "Notification", "MessageId": f"u{n}", "Timestamp": f"{AT}9.000Z", "Message": json.dumps(ses(n))}


BOTH = range(2)
HELLO = {"Type": "Notification", "Message": "Successfully validated SNS topic for Amazon SES event publishing."}
EXPORTS = {
    "SES in a queue": {"Messages": [{"MessageId": f"q{n}", "Body": json.dumps(sns(n))} for n in BOTH]},
    "SES in a function": {"Records": [{"EventSource": "aws:sns", "Sns": sns(n)} for n in BOTH]},
    "SES in a bus": [{"id": f"e{n}", "source": "aws.ses", "time": f"{AT}9Z", "detail": ses(n)} for n in BOTH],
    "SES in a log": {"events": [{"timestamp": 1795946400000, "message": json.dumps(ses(n))} for n in BOTH]},
    "SES greets": [HELLO, *map(sns, BOTH)],
    "SendGrid's activity": {
        "messages": [
            {"msg_id": f"m{n}.x", "to_email": "ann@a.example", "status": "delivered", "last_event_time": f"{AT}{n}Z"}
            for n in BOTH
        ]
    },
    "Postmark's messages": {
        "TotalCount": 2,
        "Messages": [
            {"MessageID": f"m{n}", "To": [{"Email": "ann@a.example"}], "Status": "Sent", "ReceivedAt": f"{AT}{n}Z"}
            for n in BOTH
        ],
    },
    "Resend's list": {
        "object": "list",
        "data": [
            {"id": f"e{n}", "to": ["ann@a.example"], "created_at": f"2026-11-29 10:00:0{n}.6+00", "last_event": "sent"}
            for n in BOTH
        ],
    },
    "Brevo": [
        {"event": "delivered", "email": "ann@a.example", "id": 1, "message-id": f"<{n}f@x>", "ts_event": 1795946400 + n}
        for n in BOTH
    ],
    "MailerSend": [
        {
            "type": "activity.delivered",
            "created_at": f"{AT}{n}Z",
            "data": {"type": "delivered", "email": {"id": f"e{n}", "recipient": {"email": "ann@a.example"}}},
        }
        for n in BOTH
    ],
    "a search index": {
        "hits": {
            "hits": [
                {"_source": {"event": "sent", "email": "ann@a.example", "@timestamp": f"{AT}{n}Z", "id": f"m{n}"}}
                for n in BOTH
            ]
        }
    },
}


@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
def test_what_providers_interfaces_export(tmp_path: Path, export: Any) -> None:
    for text in (json.dumps(export), json.dumps(export, indent=2)):
        found = audited(tmp_path, text)
        assert [one.apart_s for one in found.doubles] == [1] and not found.read.bad_lines


def test_records_right_behind_one_another_and_behind_the_words_of_a_log(tmp_path: Path) -> None:
    found = audited(tmp_path, "".join(json.dumps(ses(n)) for n in range(2)))
    assert found.doubles[0].workers == ("10.0.0.0", "10.0.0.1")
    words = "".join(f"{AT}{n}Z worker-{n}[12] INFO {json.dumps(ses(n))}\n" for n in range(2))
    assert kinds(audited(tmp_path, words)) == ["parallel_workers"]


@pytest.mark.parametrize(
    "header, row",
    [
        ("st_text,ts,sub,frm,email,tag,mid", "Delivered,29-11-2026 10:00:0{n},Hi,s@b.example,ann@a.example,,<{n}f@x>"),
        ("Recipient|Status|Message Id|Date", "ann@a.example|Delivered|m{n}|11/29/2026 10:00:0{n} AM"),
        ("origin_timestamp_utc,recipient_status,message_id", "2026-11-29T10:00:0{n}Z,ann@a.example##Receive,<{n}f@x>"),
        ("Message ID,Recipient,Event Status,Start date", "<{n}f@x>,ann@a.example,DELIVERED,2026-11-29 10:00:0{n} UTC"),
        ("Recipient,Event type,Created (UTC),Sent by", "ann@a.example,DELIVERED,11/29/26 10:00:0{n},w{n}"),
        ("type,timeLogged,orig,rcpt,vmta", "d,2026-11-29 10:00:0{n}+0000,s@b.example,ann@a.example,vmta{n}"),
        ("to;sent;state", '"Ann <ann@a.example>; bo@a.example";179594640{n};Bavaria'),
    ],
)
def test_tables_of_providers_and_mail_servers(tmp_path: Path, header: str, row: str) -> None:
    found = audited(tmp_path, header + "\n" + "".join(row.format(n=n) + "\n" for n in range(2)))
    assert {one.apart_s for one in found.doubles} == {1} and not found.read.bad_lines
    assert found.addresses == (2 if "bo@" in row else 1)


def test_a_table_from_windows_in_utf_16(tmp_path: Path) -> None:
    table = "Recipient\tSent at\tServer\n" + "".join(f"ann@a.example\t2026-11-29 10:00:0{n}\ts{n}\n" for n in range(2))
    (tmp_path / "export.csv").write_text(table, encoding="utf-16")
    assert kinds(audit(files=[tmp_path / "export.csv"], clock=CLOCK, limits=LIMITS)) == ["parallel_workers"]
