"""Postfix logs: one mail has many lines, in several files, and may be tried for days; that is no second mail."""

import gzip
from pathlib import Path

import pytest

from outreach.flows.auditing import audit
from tests.outreach.audit.logs import CLOCK, LIMITS, audited, kinds, queued, removed, tried

pytestmark = pytest.mark.django_db

A, B = "5.3.w1@send-1", "6.3.w2@send-2"
TEN, LATER = "Nov 29 10:00:00", "Nov 29 10:00:07"


def test_two_workers_seconds_apart_and_one_worker_an_hour_apart_in_the_sample() -> None:
    found = audit(files=[Path("tests/cases/mail/postfix_double_send.log")], clock=CLOCK, limits=LIMITS)
    assert [one.address.split("@")[0] for one in found.doubles] == ["lead3", "lead7", "lead8", "lead21", "lead30"]
    assert kinds(found) == ["parallel_workers"] * 4 + ["retry"]
    assert [one.apart_s for one in found.doubles] == [7, 7, 7, 7, 3600]
    assert found.doubles[0].workers == ("w1@send-1", "w2@send-2") and all(one.sure for one in found.doubles)
    assert (found.read.lines, found.read.bad_lines, found.addresses) == (135, 0, 40)


def test_one_mail_that_is_tried_again_for_days_over_rotated_files_is_no_double(tmp_path: Path) -> None:
    new = tried("4c1Xy2Bz3Kz", at="Nov 29 10:00:00") + removed("4c1Xy2Bz3Kz", at="Nov 29 10:00:00")
    old = queued("4c1Xy2Bz3Kz", at="Nov 27 10:00:00", mail_id=A)
    old += "".join(
        tried("4c1Xy2Bz3Kz", at=f"Nov 2{day} 11:00:00", status="deferred", reply="450 later") for day in "78"
    )
    found = audited(tmp_path, new, old)  # as a shell lists them: the newest first
    assert not found.doubles and found.deferrals == 2 and found.addresses == 1


def test_the_message_id_stands_in_an_older_file_than_the_delivery(tmp_path: Path) -> None:
    new = tried("A0001", at=TEN) + tried("A0002", at=LATER)
    old = queued("A0001", at="Nov 29 09:00:00", mail_id=A) + queued("A0002", at="Nov 29 09:00:00", mail_id=A)
    (double,) = audited(tmp_path, new, old).doubles
    assert double.kind == "retry" and {one.mail_id for one in double.copies} == {A}


def test_a_queue_id_that_is_used_again_is_another_mail(tmp_path: Path) -> None:
    log = queued("A0001", at="Nov 29 09:00:00", mail_id=A) + tried("A0001", at="Nov 29 09:00:01")
    log += removed("A0001", at="Nov 29 09:00:02")
    log += queued("A0001", at="Nov 29 10:00:00", mail_id=B) + tried("A0001", at="Nov 29 10:00:01")
    assert kinds(audited(tmp_path, log)) == ["two_campaigns"]
    bare = tried("A0001", at="Nov 29 09:00:01") + removed("A0001", at="Nov 29 09:00:02") + tried("A0001", at=TEN)
    assert len(audited(tmp_path, bare).doubles) == 1, "also where no line names the mails"


def test_a_relay_that_delivers_one_queue_id_twice_is_told_from_a_line_logged_twice(tmp_path: Path) -> None:
    once = queued("A0001", at=TEN, mail_id=A) + tried("A0001", at="Nov 29 10:00:01")
    assert not audited(tmp_path, once, once).doubles
    (double,) = audited(tmp_path, once + tried("A0001", at="Nov 29 10:05:01")).doubles
    assert double.kind == "retry" and double.apart_s == 300


def test_a_filter_and_a_second_relay_hand_one_mail_on_and_make_no_second(tmp_path: Path) -> None:
    log = queued("A0001", at=TEN, mail_id=A)
    log += tried("A0001", at="Nov 29 10:00:01", reply="250 2.0.0 from MTA: 250 2.0.0 Ok: queued as B0002")
    log += queued("B0002", at="Nov 29 10:00:01", mail_id=A)
    log += tried("B0002", at="Nov 29 10:00:02", reply="250 2.0.0 Ok: queued as C0003")
    log += queued("C0003", at="Nov 29 10:00:02", mail_id=A, host="mx9") + tried(
        "C0003", at="Nov 29 10:00:03", host="mx9"
    )
    found = audited(tmp_path, log)
    assert not found.doubles and found.hops == 2


def test_a_mail_that_bounced_did_not_arrive_so_the_next_is_no_double(tmp_path: Path) -> None:
    log = queued("A0001", at=TEN, mail_id=A) + tried("A0001", at=TEN, status="bounced", reply="550 no")
    log += queued("A0002", at=LATER, mail_id=B) + tried("A0002", at=LATER)
    assert not audited(tmp_path, log).doubles


def test_notices_of_the_mail_system_are_no_campaign_mail(tmp_path: Path) -> None:
    log = "".join(
        queued(f"A000{n}", at=TEN, mail_id=f"{n}@mx1", sender="") + tried(f"A000{n}", at=TEN, to="sales@rota.example")
        for n in range(5)
    )
    found = audited(tmp_path, log)
    assert not found.doubles and found.notices == 5


@pytest.mark.parametrize(
    "at",
    ["2026-11-29T10:00:0{}.123456+01:00", "2026-11-29T10:00:0{}Z", "<22>Nov 29 10:00:0{}", "Nov 29 2026 10:00:0{}"],
)
def test_times_in_every_form_that_system_logs_have(tmp_path: Path, at: str) -> None:
    log = "".join(
        queued(f"A000{n}", at=at.format(n), mail_id=mail_id) + tried(f"A000{n}", at=at.format(n + 7))
        for n, mail_id in enumerate((A, B))
    )
    found = audited(tmp_path, log)
    assert [one.apart_s for one in found.doubles] == [1] and not found.read.bad_lines


def test_a_log_over_the_turn_of_the_year_keeps_its_order(tmp_path: Path) -> None:
    log = queued("A0001", at="Dec 31 23:59:59", mail_id=A) + tried("A0001", at="Dec 31 23:59:59")
    log += queued("A0002", at="Jan  1 00:00:04", mail_id=B) + tried("A0002", at="Jan  1 00:00:04")
    (double,) = audited(tmp_path, log).doubles
    assert double.apart_s == 5


def test_capitals_aliases_and_several_recipients(tmp_path: Path) -> None:
    log = (
        queued("A0001", at=TEN, mail_id=A)
        + tried("A0001", at=TEN, to="Ann@A.Example")
        + tried("A0001", at=TEN, to="bo@a.example")
    )
    log += queued("A0002", at=LATER, mail_id=B) + tried("A0002", at=LATER, to="box7@b.example>, orig_to=<ANN@a.example")
    found = audited(tmp_path, log)
    assert [one.address for one in found.doubles] == ["ann@a.example"]


def test_what_other_daemons_say_is_passed_over_and_what_is_broken_is_counted_and_shown(tmp_path: Path) -> None:
    log = "Nov 29 10:00:00 mx1 dovecot: imap-login: Login: user=<ann>\n"
    log += "Nov 29 10:00:00 mx1 postfix/smtpd[9]: connect from send-1[192.0.2.1]\n"
    log += "Nov 29 10:00:00 mx1 postfix/smtpd[9]: NOQUEUE: reject: RCPT from x[192.0.2.1]: 550; to=<ann@a.example>\n"
    log += "Nov 29 10:00:00 mx1 postfix/smtp[9]: A0001: to=<ann@a.example>, relay=no\n"
    log += "half a li\nNov 31 10:00:00 mx1 postfix/smtp[9]: A0001: to=<ann@a.example>, status=sent (250)\n\n"
    log += tried("A0009", at=TEN, status="flying") + tried("A0010", at=TEN)
    found = audited(tmp_path, log)
    assert found.read.bad_lines == 4 and found.read.lines == 9 and found.addresses == 1
    assert [(bad["line"], bad["why"]) for bad in found.read.bad] == [
        (4, "a delivery without recipient or status"),
        (5, "no line of a system log"),
        (6, "Nov 31 10:00:00 is no time"),
        (8, "status=flying is unknown"),
    ]


def test_packed_files_are_unpacked_by_what_is_in_them(tmp_path: Path) -> None:
    packed = tmp_path / "mail.log.2.gz"
    packed.write_bytes(gzip.compress(Path("tests/cases/mail/postfix_double_send.log").read_bytes()))
    assert audit(files=[packed], clock=CLOCK, limits=LIMITS).mailed_twice == 5


def test_a_client_that_the_log_names_is_the_worker(tmp_path: Path) -> None:
    client = "Nov 29 10:00:00 mx1 postfix/smtpd[9]: {}: client={}[192.0.2.1], sasl_method=PLAIN\n"
    log = "".join(
        client.format(queue, name) + queued(queue, at=TEN, mail_id=f"{n}@rota.example") + tried(queue, at=at)
        for n, (queue, name, at) in enumerate((("A0001", "send-1", TEN), ("A0002", "send-2", LATER)))
    )
    (double,) = audited(tmp_path, log).doubles
    assert double.workers == ("send-1", "send-2") and double.kind == "parallel_workers" and double.sure


def test_without_anything_that_names_a_worker_the_kind_cannot_be_told(tmp_path: Path) -> None:
    log = "".join(
        queued(queue, at=TEN, mail_id=f"{n}@rota.example") + tried(queue, at=at)
        for n, (queue, at) in enumerate((("A0001", TEN), ("A0002", LATER)))
    )
    (double,) = audited(tmp_path, log).doubles
    assert (double.kind, double.sure, double.workers) == ("unknown", False, ("unknown",))
