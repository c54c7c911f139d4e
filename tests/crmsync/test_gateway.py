"""Talking to the org: signing in, deadlines, and what a broken call is called."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from crmsync.direct import Row, Target, write
from crmsync.errors import CallFailed, NotConfigured
from crmsync.gateway import Address, Org, connect, where
from tests.crmsync.sandbox_org import SandboxOrg

HEADERS = {"Sforce-Call-Options": "client=test"}


def upsert(org: Org, *external_ids: str, **fields: Any) -> list[Any]:
    fields = {"LastName": "L", "Company": "C", **fields}
    rows = [Row(external_id, fields) for external_id in external_ids]
    return write(org, Target("Lead", "upsert", "Rota_Id__c"), rows, headers=HEADERS)


@pytest.mark.parametrize("external_id", ["a b", "a/../b", "a#b", "a?b=c", "ü", "100%", "a+b", "." * 3])
def test_any_external_id_reaches_the_record_it_names(org: SandboxOrg, external_id: str) -> None:
    upsert(connect(), external_id)
    upsert(connect(), external_id, "other")
    assert sorted(record["Rota_Id__c"] for record in org.records("Lead")) == sorted([external_id, "other"])


def test_one_token_serves_many_calls_and_is_renewed_once_per_refusal(org: SandboxOrg) -> None:
    gateway = connect()
    upsert(gateway, "one")
    token = gateway.token
    upsert(gateway, "two")
    assert gateway.token == token
    org.fault("expire_token")
    assert upsert(gateway, "three")[0].fault is None
    assert gateway.token != token


def test_a_session_that_stays_refused_is_told_after_two_calls(org: SandboxOrg) -> None:
    org.fault("expire_token", times=10)
    with pytest.raises(CallFailed) as failed:
        upsert(connect(), "one")
    assert (failed.value.fault.code, failed.value.fault.status) == ("INVALID_SESSION_ID", 401)
    assert org.ask("GET", "faults")["faults"][0]["times"] == 8


def test_the_assignment_rule_header_survives_the_renewal(org: SandboxOrg) -> None:
    gateway = connect()
    org.fault("expire_token")
    seen: list[Any] = []
    gateway.session.hooks["response"].append(lambda response, **_: seen.append(response.request.headers))
    upsert(gateway, "one")
    gateway.session.hooks["response"].pop()
    assert [headers.get("Sforce-Auto-Assign") for headers in seen] == ["FALSE"] * 3


def test_each_kind_of_broken_call_has_its_name(org: SandboxOrg) -> None:
    gateway = connect()
    for fault, code, status in (
        ("close_before", "NO_ANSWER", 0),
        ("commit_then_close", "NO_ANSWER", 0),
        ("unavailable", "", 503),
    ):
        org.fault(fault)
        with pytest.raises(CallFailed) as failed:
            upsert(gateway, "one")
        assert (failed.value.fault.code, failed.value.fault.status) == (code, status)
    assert len(org.records("Lead")) == 1


def test_a_stalled_org_is_given_up_within_the_deadline(org: SandboxOrg, settings: Any) -> None:
    settings.CRM_TIMEOUT_S = 0.6
    upsert(connect(), "warm")
    org.stall(30)
    began = time.monotonic()
    with pytest.raises(CallFailed) as failed:
        upsert(connect(), "one")
    assert failed.value.fault.code == "NO_ANSWER"
    assert time.monotonic() - began < 1.5


def test_nobody_listening_is_not_the_same_as_no_answer(settings: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        settings.CRM_URL = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(CallFailed) as failed:
            connect().sign_in()
    assert failed.value.fault.code == "NOT_CONNECTED"


def test_what_comes_too_late_is_not_sent_at_all(org: SandboxOrg) -> None:
    gateway = connect()
    gateway.sign_in()
    with pytest.raises(CallFailed) as failed, gateway.until(time.monotonic() - 0.001):
        upsert(gateway, "late")
    assert failed.value.fault.code == "NOT_CONNECTED"
    assert org.records("Lead") == []


@pytest.fixture
def trickler() -> Iterator[str]:
    """A server that sends its answer one byte every 50 ms, for ever."""
    server = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def trickle() -> None:
        peer, _ = server.accept()
        with peer:
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not over.wait(0.05):
                try:
                    peer.sendall(b" ")
                except OSError:
                    return

    thread = threading.Thread(target=trickle)
    thread.start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    over.set()
    thread.join()
    server.close()


def test_an_answer_that_trickles_for_ever_is_cut_off(trickler: str) -> None:
    org = Org(Address(trickler, "id", "secret", "59.0", 0.5))
    began = time.monotonic()
    with pytest.raises(CallFailed):
        org.sign_in()
    assert time.monotonic() - began < 1.5
    org.session.close()


def test_addresses_are_found_by_exactly_one_active_user(org: SandboxOrg) -> None:
    found = connect().users_by_email(["ADA.reyes@rota.example", "finn.larsen@rota.example", "o'nobody@x.example"])
    assert list(found) == ["ada.reyes@rota.example"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "not set"),
        ("http://acme.my.salesforce.com", "plain http"),
        ("http://10.0.0.5:8765", "plain http"),
        ("https://127.0.0.1:8765", "My Domain"),
        ("https://acme.example.com", "My Domain"),
        ("https://login.salesforce.com", "My Domain"),
    ],
)
def test_an_address_that_would_not_be_safe_or_not_work_is_refused_with_the_reason(url: str, reason: str) -> None:
    with pytest.raises(NotConfigured, match=reason):
        where(url)


def test_a_my_domain_is_taken() -> None:
    assert where("https://acme--uat.sandbox.my.salesforce.com") == ("acme--uat.sandbox.my", None)


def test_plain_http_never_leaves_for_anywhere(org: SandboxOrg) -> None:
    with pytest.raises(Exception, match="Plain http"):
        connect().session.get(org.url)
