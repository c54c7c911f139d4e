"""The local mailbox: keeps what it answered 250 to, on this machine only, and is looked at in the admin."""

import smtplib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.urls import reverse

from config.mailbox import how_many, newest, text_of
from config.processes import Wanted, processes
from tests.config.living import free_port, running, until
from tests.staff import logged_in

MAIL = (
    "From: Pat <pat@rota.example>\nTo: ann@acme.example\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\nMessage-ID: <m1@x>\n\n"
)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def box(tmp_path: Path) -> Iterator[tuple[int, Path, psutil.Process]]:
    port, folder = free_port(), tmp_path / "mails"
    command = (sys.executable, "-m", "config.mailbox", "--port", str(port), "--folder", str(folder))
    with running(*command, log=tmp_path / "log") as process:
        until(lambda: answers(port))
        yield port, folder, process


def test_a_mail_is_kept_once_for_each_recipient_and_survives_a_kill(box: Any) -> None:
    port, folder, process = box
    with smtplib.SMTP("127.0.0.1", port) as relay:
        relay.sendmail("pat@rota.example", ["ann@acme.example", "bo@acme.example"], f"{MAIL}<b>hi</b>".encode())
    process.kill()
    kept = list(newest(folder))
    assert sorted(mail.to for mail in kept) == ["ann@acme.example", "bo@acme.example"]
    assert {(mail.subject, mail.mail_id) for mail in kept} == {("Grüße", "<m1@x>")}
    assert how_many(folder) == 2 and len(list(newest(folder, most=1))) == 1
    headers, text = text_of(folder, kept[0].name) or ([], "")
    assert ("Subject", "Grüße") in headers and text.strip() == "<b>hi</b>"


def test_it_listens_on_this_machine_only(box: Any) -> None:
    _, _, process = box
    assert {c.laddr.ip for c in process.net_connections() if c.status == "LISTEN"} == {"127.0.0.1"}


@pytest.mark.parametrize("name", ["../new/x", "nothing", "", "/etc/passwd"])
def test_a_name_that_is_no_mail_of_it_is_no_mail(tmp_path: Path, name: str) -> None:
    (tmp_path / "new").mkdir()
    assert text_of(tmp_path, name) is None


def test_the_mailbox_is_started_only_where_no_relay_is_set() -> None:
    login = ("id", "secret")
    given = {"sandbox_port": None, "sandbox_login": login, "sandbox_data": "", "queues": (), "task_timeout": 5}
    assert "mailbox" not in [p.name for p in processes(Wanted(**given))]
    assert processes(Wanted(**given, mailbox_port=8002, mailbox_folder="var/mailbox"))[0].name == "mailbox"


@pytest.mark.django_db
def test_its_pages_show_the_mails_and_escape_what_they_say(box: Any, settings: Any) -> None:
    port, settings.MAILBOX_FOLDER, _ = box
    robin = logged_in()
    page = robin.get(reverse("admin:mailbox")).content.decode()
    assert "No mail came in yet" in page and "reaches nobody" in page
    with smtplib.SMTP("127.0.0.1", port) as relay:
        relay.sendmail("pat@rota.example", ["ann@acme.example"], f"{MAIL}<script>x</script>".encode())
    page = robin.get(reverse("admin:mailbox")).content.decode()
    (mail,) = newest(settings.MAILBOX_FOLDER)
    address = reverse("admin:mailbox_mail", args=[mail.name])
    assert "ann@acme.example" in page and address in page
    page = robin.get(address).content.decode()
    assert "Grüße" in page and "&lt;script&gt;" in page and "<script>x" not in page
    assert robin.get(reverse("admin:mailbox_mail", args=["nothing"])).status_code == 404


@pytest.mark.django_db
def test_who_may_not_see_mails_does_not_see_the_mailbox() -> None:
    assert logged_in(may=()).get(reverse("admin:mailbox")).status_code == 403
