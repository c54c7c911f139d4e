"""The webhook behind a real server: ten deliveries at once, chunked bodies, and senders that break off or lie."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from routing.models import Assignment, Delivery, InboundEvent, InboundSource, Lead
from tests.make import make_payload, make_source, make_team
from tests.routing.senders import headers_for
from tests.routing.served import Connection, gunicorn, raw

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def server(django_db_setup: None) -> Iterator[str]:
    with gunicorn(INBOUND_MAX_BYTES="2048", DB_LOCK_TIMEOUT_MS="20000", LOG_LEVEL="ERROR") as path:
        yield path


def deliver(connection: Connection, source: InboundSource, body: str, **words: Any) -> tuple[int, dict[str, Any]]:
    signed = headers_for(body, secret=source.secret, **words)
    connection.request("POST", f"/in/{source.slug}", body, {**signed, "Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def head_of(source: InboundSource, body: str, *more: str) -> bytes:
    lines = [
        f"POST /in/{source.slug} HTTP/1.1",
        "Host: localhost",
        "Connection: close",
        "Content-Type: application/json",
    ]
    lines += [f"{name}: {value}" for name, value in headers_for(body, secret=source.secret).items()]
    return "\r\n".join([*lines, *more, "", ""]).encode()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_the_same_event_ten_times_at_once_makes_one_lead_one_201_and_nine_200(server):
    source = make_source(team=make_team(reps=3))
    body = json.dumps(make_payload())
    start, answers = threading.Barrier(10), []

    def one() -> None:
        connection = Connection(server)
        connection.connect()
        start.wait(30)
        answers.append(deliver(connection, source, body, event_id="evt_1"))
        connection.close()

    threads = [threading.Thread(target=one) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(code for code, _ in answers) == [200] * 9 + [201]
    assert {answer["lead"] for _, answer in answers} == {str(Lead.objects.get().uid)}
    assert (InboundEvent.objects.count(), Assignment.objects.count(), Delivery.objects.count()) == (1, 1, 10)


def test_ten_events_of_one_person_at_once_make_one_lead_and_nine_touches(server):
    source = make_source(team=make_team(reps=3))
    body = json.dumps(make_payload())
    start, answers = threading.Barrier(10), []

    def one() -> None:
        connection = Connection(server)
        connection.connect()
        start.wait(30)
        answers.append(deliver(connection, source, body))
        connection.close()

    threads = [threading.Thread(target=one) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer["outcome"] for _, answer in answers) == ["assigned"] + ["touched"] * 9
    assert len({answer["lead"] for _, answer in answers}) == Lead.objects.count() == Assignment.objects.count() == 1


def test_many_events_over_one_kept_connection_are_each_answered(server):
    source = make_source()
    connection = Connection(server)
    answers = [deliver(connection, source, json.dumps(make_payload()))[0] for _ in range(5)]
    connection.request("GET", f"/in/{source.slug}")
    refused = connection.getresponse()
    refused.read()
    answers.append(deliver(connection, source, json.dumps(make_payload()))[0])
    connection.close()
    assert answers == [201] * 6 and (refused.status, refused.headers["Allow"]) == (405, "POST")


def test_a_chunked_body_without_a_length_is_read_to_its_end(server):
    source = make_source()
    body = json.dumps(make_payload())
    chunks = b"".join(f"{len(part):x}\r\n{part}\r\n".encode() for part in (body[:10], body[10:])) + b"0\r\n\r\n"
    assert status(raw(server, head_of(source, body, "Transfer-Encoding: chunked") + chunks)) == 201
    assert Lead.objects.count() == 1


def test_a_chunked_body_that_is_too_large_is_answered_413(server):
    source = make_source()
    body = json.dumps(make_payload(note="x" * 3_000))
    chunks = f"{len(body):x}\r\n{body}\r\n0\r\n\r\n".encode()
    assert status(raw(server, head_of(source, body, "Transfer-Encoding: chunked") + chunks)) == 413


@pytest.mark.parametrize("chunks", [b"zz\r\nbody\r\n0\r\n\r\n", b"-1\r\n\r\n", b"ffff\r\nshort", b""])
def test_broken_chunks_are_answered_400_and_nothing_is_kept(server, chunks):
    head = head_of(make_source(), "{}", "Transfer-Encoding: chunked")
    assert status(raw(server, head + chunks, then="stop")) == 400
    assert not Delivery.objects.exists()


def test_a_length_beyond_the_limit_is_answered_413_before_the_body_comes(server):
    assert status(raw(server, head_of(make_source(), "{}", "Content-Length: 999999999"), then="stop")) == 413


def test_a_body_that_ends_before_its_length_is_answered_400_and_nothing_is_kept(server):
    source = make_source()
    body = json.dumps(make_payload())
    head = head_of(source, body, f"Content-Length: {len(body)}")
    assert status(raw(server, head + body[:-5].encode(), then="stop")) == 400
    assert not Delivery.objects.exists()


def test_a_length_shorter_than_the_body_does_not_pass_the_signature(server):
    source = make_source()
    body = json.dumps(make_payload())
    assert status(raw(server, head_of(source, body, "Content-Length: 10") + body.encode(), then="stop")) == 401
    assert not Lead.objects.exists()


@pytest.mark.parametrize("length", ["ten", "-5", "+5", "1_0", "5, 6"])
def test_a_length_that_is_no_number_is_answered_400(server, length):
    assert status(raw(server, head_of(make_source(), "{}", f"Content-Length: {length}") + b"{}", then="stop")) == 400


def test_a_length_and_chunks_together_are_answered_400_for_they_can_smuggle_a_second_request(server):
    head = head_of(make_source(), "{}", "Content-Length: 2", "Transfer-Encoding: chunked")
    assert status(raw(server, head + b"2\r\n{}\r\n0\r\n\r\n", then="stop")) == 400


@pytest.mark.parametrize("method", ["HEAD", "GET", "PUT", "DELETE"])
def test_other_methods_are_answered_405(server, method):
    request = f"{method} /in/{make_source().slug} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = raw(server, request.encode())
    assert status(answer) == 405 and b"Allow: POST" in answer and b"X-Request-Id: " in answer
