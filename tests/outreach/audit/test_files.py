"""What a file is, whatever its layout; and one of which nothing can be used is never taken for a quiet day."""

import bz2
import gzip
import json
import lzma
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outreach.audit.times import Order
from outreach.errors import NotALog
from outreach.flows.auditing import audit
from tests.outreach.audit.logs import CLOCK, LIMITS, audited, kinds, lines, queued, tried

pytestmark = pytest.mark.django_db

EVENTS = [
    {"event": "delivered", "email": "ann@a.example", "worker": f"w{n}", "timestamp": f"2026-11-29T10:00:0{n}Z", "id": n}
    for n in range(2)
]
US = "Email,Sent at,Worker,Message ID\n" + "".join(
    f"{name}@a.example,11/{day}/2026 10:00:0{n} AM,w{n},<{name}{n}@x>\n"
    for name, day in (("ann", "29"), ("bo", "03"))
    for n in range(2)
)


@pytest.mark.parametrize(
    "text",
    [
        "".join(json.dumps(one, indent=2) + "\n" for one in EVENTS),
        json.dumps(EVENTS),
        json.dumps(EVENTS, indent=4),
        json.dumps(EVENTS, indent=0),
        "[\n" + ",\n".join(map(json.dumps, EVENTS)) + "\n]\n",
        "".join(map(json.dumps, EVENTS)),
        json.dumps({"items": EVENTS, "paging": {"next": "x"}}, indent=2),
        json.dumps({"events": EVENTS}),
        lines(*EVENTS).replace("\n", "\r\n"),
    ],
    ids=[
        "pretty",
        "array",
        "pretty array",
        "not indented",
        "lines of an array",
        "no line ends",
        "page",
        "one line",
        "CR",
    ],
)
def test_json_is_read_in_whatever_layout_it_is_written(tmp_path: Path, text: str) -> None:
    found = audited(tmp_path, text)
    assert kinds(found) == ["parallel_workers"] and not found.read.bad_lines and found.read.lines == 2


@pytest.mark.parametrize("cut", [5, 18, 50, 60])
def test_a_record_that_was_cut_off_spoils_no_other(tmp_path: Path, cut: int) -> None:
    pretty = json.dumps(EVENTS[:1] * 3, indent=2)
    found = audited(tmp_path, pretty[: len(pretty) - cut] + "\n" + lines(*EVENTS))
    assert kinds(found) == ["parallel_workers"] and found.read.bad_lines == 1
    found = audited(tmp_path, json.dumps(EVENTS[0])[:cut] + "\n" + lines(*EVENTS))
    assert kinds(found) == ["parallel_workers"] and found.read.bad_lines == 1


@pytest.mark.parametrize(
    "text, why",
    [
        ('{"event": "delivered", "email": 12345, "ts": 1795946400}\n' * 3, "line 1: 12345 is no address"),
        ("Email,Sent at\n" + "ann@a.example,some day\n" * 3, "line 2: some day is no time"),
        ("Nov 31 10:00:00 mx1 postfix/smtp[9]: A0001: to=<ann@a.example>, status=sent (250)\n", "is no time"),
        ("Nov 29 10:00:00 mx1 sshd[9]: Accepted publickey for ann\n", "no line in it is of Postfix"),
        (json.dumps({"name": "rota", "scripts": {"test": "x"}}, indent=2), "no address in it"),
    ],
)
def test_a_file_of_which_nothing_could_be_used_is_no_mail_log_and_it_is_said_why(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(NotALog, match="is no mail log") as refused:
        audited(tmp_path, lines(*EVENTS), text)
    assert "log1" in str(refused.value) and why in str(refused.value)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"])
def test_a_packed_file_that_breaks_off_counts_as_far_as_it_can_be_read_and_that_is_said(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    many = [{**EVENTS[0], "email": f"{secrets.token_hex(90)}@a.example"} for _ in range(8_000)]
    packed = pack(lines(*EVENTS, *many).encode())
    path = tmp_path / "log.packed"
    path.write_bytes(packed[: len(packed) * 3 // 4])
    found = audit(files=[path], clock=CLOCK, limits=LIMITS)
    assert kinds(found) == ["parallel_workers"] and found.addresses > 1_000
    assert "was read up to where it breaks off" in found.read.warnings[-1]
    path.write_bytes(packed[:9])
    with pytest.raises(NotALog, match="cannot be unpacked"):
        audit(files=[path], clock=CLOCK, limits=LIMITS)


@pytest.mark.parametrize(
    "record",
    [
        '{"a":' * 100_000,
        '{"a":' + "[" * 100_000,
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
        *(
            f'{{"event": "delivered", "email": "bo@a.example", "timestamp": {at}}}'
            for at in ("1e20", "-1e18", "9" * 400, "1" * 5_000, "NaN", "Infinity", '"0001-01-01T00:00:00+14:00"')
        ),
    ],
    ids=["deep", "deep list", "deep and closed", "1e20", "-1e18", "400", "5000", "NaN", "Infinity", "year 1"],
)
def test_a_record_that_no_program_would_write_is_one_bad_line(tmp_path: Path, record: str) -> None:
    found = audited(tmp_path, record + "\n" + lines(*EVENTS))
    assert kinds(found) == ["parallel_workers"] and found.read.bad_lines == 1 and json.dumps(found.as_dict())


def test_signs_that_are_no_text_spoil_nothing(tmp_path: Path) -> None:
    odd = [{**one, "worker": "w\ud800", "subject": "\0", "message_id": f"<m\0{one['id']}\ud800@x>"} for one in EVENTS]
    wrapped = [{"Type": "Notification", "Message": json.dumps(one)} for one in odd]
    for records in (odd, wrapped):
        found = audited(tmp_path, lines(*records))
        assert len(found.doubles) == 1 and not found.read.bad_lines
    name = tmp_path / "log\udcff"
    name.write_text(lines(*EVENTS))
    found = audit(files=[name], clock=CLOCK, limits=LIMITS)
    assert json.dumps(found.as_dict(), ensure_ascii=False).encode()


def test_a_log_in_which_nothing_happened_is_a_log(tmp_path: Path) -> None:
    quiet = "Nov 29 10:00:00 mx1 postfix/smtpd[9]: connect from send-1[192.0.2.1]\n"
    found = audited(tmp_path, "", quiet, "[]\n", "Email,Sent at\n", lines({"event": "unsubscribe", "email": "a@b.de"}))
    assert found.addresses == 0 and not found.read.warnings


def test_more_than_a_small_share_of_lines_that_cannot_be_used_is_said_loudly(tmp_path: Path) -> None:
    bad = '{"event": "delivered", "email": "nobody"}\n'
    (warning,) = audited(tmp_path, lines(*EVENTS) + bad).read.warnings
    assert "1 of 3 lines" in warning and "log0" in warning and "line 3: nobody is no address" in warning
    assert not audited(tmp_path, lines(*EVENTS * 20) + bad).read.warnings
    postfix = "".join(queued(q, at="Nov 29 10:00:00") + tried(q, at="Nov 29 10:00:01") for q in ("A0001", "A0002"))
    assert audited(tmp_path, postfix + "Nov 29 10:00:00 half a li\n").read.warnings


def test_american_dates_are_read_where_some_day_of_the_column_says_which_is_the_day(tmp_path: Path) -> None:
    found = audited(tmp_path, US)
    assert kinds(found) == ["parallel_workers"] * 2 and [one.apart_s for one in found.doubles] == [1, 1]
    assert [one.as_dict()["mails"][0]["at"] for one in found.doubles] == [
        "2026-11-03T10:00:00Z",
        "2026-11-29T10:00:00Z",
    ]
    european = audited(tmp_path, US.replace("11/29/2026", "29/11/2026").replace("11/03/2026", "03/11/2026"))
    assert [one.as_dict()["mails"] for one in european.doubles] == [one.as_dict()["mails"] for one in found.doubles]


def test_dates_that_may_be_either_are_refused_unless_it_is_said_which_they_are(tmp_path: Path) -> None:
    unclear = US.replace("29", "04")
    with pytest.raises(NotALog, match="--dates dmy or --dates mdy"):
        audited(tmp_path, unclear)
    orders: tuple[tuple[Order, str], ...] = (("mdy", "2026-11-03"), ("dmy", "2026-03-11"))
    for order, first in orders:
        clock: Any = replace(CLOCK, order=order)
        mail = audited(tmp_path, unclear, clock=clock).doubles[0].as_dict()["mails"][0]
        assert mail["at"].startswith(first)


@pytest.mark.parametrize(
    "at",
    [
        "29.11.2026 10:00:0{}",
        "29.11.2026, 10:00:0{}",
        "2026/11/29 10:00:0{}",
        "2026-11-29 10:00:0{} UTC",
        "2026-11-29 11:00:0{}.5 +0100",
        "Nov 29, 2026, 10:00:0{} AM",
        "29 Nov 2026 10:00:0{}",
        "29/Nov/2026:10:00:0{} +0000",
        "Sun, 29 Nov 2026 10:00:0{} +0000",
        "Sun Nov 29 2026 10:00:0{} GMT+0000 (Coordinated Universal Time)",
        "179594640{}",
        "179594640{}000000",
    ],
)
def test_dates_in_every_usual_form(tmp_path: Path, at: str) -> None:
    table = "To;Sent at;Worker\n" + "".join(f'ann@a.example;"{at.format(n)}";w{n}\n' for n in range(2))
    (double,) = audited(tmp_path, table).doubles
    assert double.apart_s == 1 and str(double.as_dict()["mails"][0]["at"]).startswith("2026-11-29T10:00:00")
