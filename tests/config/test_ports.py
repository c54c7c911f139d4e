"""Nothing starts on a port that another program has, and each that is taken is named with its setting."""

import socket
from pathlib import Path

import pytest

from config.ports import Port, PortsTaken, held, ports_of
from config.processes import Wanted
from config.supervise import supervisor
from tests.config.living import PYTHON, free_port, running


def taken_port() -> socket.socket:
    other = socket.create_server(("127.0.0.1", 0))
    other.listen()
    return other


def test_every_port_that_up_needs_is_tried() -> None:
    wanted = Wanted(8001, ("id", "secret"), "var/sandbox", queues=(), task_timeout=1, mailbox_port=8002)
    assert [(one.setting, one.number) for one in ports_of(wanted, host="::1", port=8000)] == [
        ("PORT", 8000),
        ("SANDBOX_PORT", 8001),
        ("MAILBOX_PORT", 8002),
    ]


def test_each_port_that_is_taken_is_named_with_its_setting() -> None:
    with taken_port() as one, taken_port() as two:
        ports = [Port("PORT", "0.0.0.0", one.getsockname()[1]), Port("SANDBOX_PORT", "127.0.0.1", free_port())]
        ports.append(Port("MAILBOX_PORT", "127.0.0.1", two.getsockname()[1]))
        with pytest.raises(PortsTaken) as refused, held(ports):
            pass
    first, second = str(refused.value).splitlines()
    assert "Set PORT" in first and str(ports[0].number) in first and "Set MAILBOX_PORT" in second


def test_two_settings_with_one_port_are_told_apart_before_anything_starts() -> None:
    port = free_port()
    with (
        pytest.raises(PortsTaken, match="PORT and MAILBOX_PORT are both"),
        held([Port("PORT", "127.0.0.1", port), Port("MAILBOX_PORT", "127.0.0.1", port)]),
    ):
        pass


def test_a_port_that_is_held_is_nobody_elses_and_is_free_at_once_afterwards() -> None:
    ports = [Port("PORT", "127.0.0.1", free_port())]
    with held(ports), pytest.raises(PortsTaken), held(ports):
        pass
    with held(ports):
        pass


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("setting", ["PORT", "SANDBOX_PORT", "MAILBOX_PORT"])
def test_up_ends_with_1_and_starts_nothing_where_a_port_is_taken(tmp_path: Path, setting: str) -> None:
    log = tmp_path / "log"
    with taken_port() as other:
        ports = {name: str(free_port()) for name in ("PORT", "SANDBOX_PORT", "MAILBOX_PORT")}
        ports[setting] = str(other.getsockname()[1])
        with running(PYTHON, "manage.py", "up", log=log, **ports) as up:
            assert up.wait(60) == 1
    said = log.read_text()
    assert f"Set {setting} to" in said and "migrations" not in said and "Rota is up" not in said
    assert supervisor() is None
