"""The job lock in a real Redis: one holder, a token in the hand of each, and nothing lost where the lock is lost."""

import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from outreach.flows.sender import HELD_BY_ANOTHER, JOB, send_due
from outreach.models import JobLock, Message, OutreachEvent, SendAttempt
from outreach.moves import job_lock, redis_lock
from tests.config.living import free_port
from tests.outreach.make import make_running
from tests.outreach.relays import Stall, scripted, sink
from tests.outreach.test_sender import relay_at
from tests.races.test_outreach_claims import at_once

pytestmark = pytest.mark.django_db(transaction=True)

START_S = 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: Any) -> Iterator[int]:
    """A redis-server of our own, on a free port; its port."""
    port = free_port()
    folder = tmp_path_factory.mktemp("redis")
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen([*words, "--dir", str(folder)], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + START_S
        while not listens(port):
            assert process.poll() is None and time.monotonic() < until, "redis-server did not start"
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def keys(server: int, settings: Any) -> Iterator[redis.Redis]:
    """Redis, empty, with the job lock in it."""
    settings.JOB_LOCK_URL = f"redis://127.0.0.1:{server}/0"
    client = redis.Redis.from_url(settings.JOB_LOCK_URL)
    client.flushall()
    yield client
    client.close()
    redis_lock.client(settings.JOB_LOCK_URL).connection_pool.disconnect()
    redis_lock.client.cache_clear()


def take(worker: str = "w1", lease_s: float = 60) -> uuid.UUID | None:
    return job_lock.take(name="job", worker=worker, lease_s=lease_s)


@pytest.mark.usefixtures("keys")
def test_of_many_at_once_one_takes_it_and_the_others_are_written_down() -> None:
    taken = at_once(8, lambda n: take(f"w{n}"))
    assert sum(token is not None for token in taken) == 1
    assert OutreachEvent.objects.filter(kind="turned_away", layer="job_lock").count() == 7
    assert not JobLock.objects.exists(), "it is not in Postgres"


def test_negative_control_looking_first_and_setting_then_lets_several_in(keys: redis.Redis) -> None:
    all_looked = threading.Barrier(4)

    def naive(_: int) -> bool:
        free = keys.get("naive") is None
        all_looked.wait()
        return bool(free and keys.set("naive", "mine"))

    assert sum(at_once(4, naive)) == 4


def test_a_lock_ends_by_redis_clock_and_the_next_takes_it(keys: redis.Redis) -> None:
    assert take(lease_s=0.05)
    assert 0 < keys.pttl("rota:job:job") <= 50
    until = time.monotonic() + START_S
    while (second := take("w2")) is None:
        assert time.monotonic() < until
    assert second


def test_who_lost_it_cannot_renew_or_release_what_another_holds(keys: redis.Redis) -> None:
    first = take()
    assert first is not None
    keys.delete("rota:job:job")  # its time ran out, or Redis was restarted
    second = take("w2")
    assert second is not None
    assert not job_lock.renew(name="job", token=first, lease_s=60)
    job_lock.release(name="job", token=first)
    assert keys.get("rota:job:job") == second.hex.encode()
    assert job_lock.renew(name="job", token=second, lease_s=60)
    job_lock.release(name="job", token=second)
    assert keys.get("rota:job:job") is None


def test_negative_control_a_release_that_does_not_compare_frees_anothers_lock(keys: redis.Redis) -> None:
    assert take()
    keys.delete("rota:job:job")
    assert take("w2")
    keys.delete("rota:job:job")  # what a release without the token does
    assert take("w3"), "now two hold it"


def test_a_second_sender_goes_home_while_the_first_is_at_work(keys: redis.Redis, settings: Any) -> None:
    make_running()
    keys.set(f"rota:job:{JOB}", "somebody", px=60_000)
    with scripted() as relay:
        relay_at(settings, relay.port)
        assert send_due(worker="w2").stopped == HELD_BY_ANOTHER
        keys.delete(f"rota:job:{JOB}")
        assert send_due(worker="w2").sent == 1
    assert keys.get(f"rota:job:{JOB}") is None, "let go of at the end"


def test_a_lock_lost_within_a_run_never_mails_anybody_twice(keys: redis.Redis, settings: Any, tmp_path: Path) -> None:
    campaign = make_running(leads=40)
    stop = threading.Event()

    def lose() -> None:
        while not stop.is_set():
            keys.flushall()

    with sink(tmp_path) as relay:
        relay_at(settings, relay.port)
        thread = threading.Thread(target=lose)
        thread.start()
        try:
            while Message.objects.exclude(status="sent").exists():
                at_once(4, lambda n: send_due(worker=f"w{n}", batch=3))
        finally:
            stop.set()
            thread.join()
        assert set(relay.addresses().values()) == {1} and len(relay.addresses()) == 40
    assert SendAttempt.objects.count() == 40 and campaign.messages.filter(status="sent").count() == 40


def test_while_redis_is_out_of_reach_mail_goes_on(settings: Any, caplog: Any) -> None:
    settings.JOB_LOCK_URL = f"redis://127.0.0.1:{free_port()}/0"
    make_running(leads=2)
    with scripted() as relay:
        relay_at(settings, relay.port)
        assert send_due(worker="w1").sent == 2
    assert job_lock.renew(name="job", token=uuid.uuid4(), lease_s=1)
    assert "out of reach" in caplog.text
    redis_lock.client.cache_clear()


def test_a_redis_that_accepts_and_says_nothing_holds_nobody_up(settings: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(redis_lock, "ANSWER_S", 0.2)
    redis_lock.client.cache_clear()
    stall = Stall()
    with scripted({"connect": stall}) as mute:
        settings.JOB_LOCK_URL = f"redis://127.0.0.1:{mute.port}/0"
        begun = time.monotonic()
        assert take() is not None
        assert time.monotonic() - begun < 10
        stall.go.set()
    redis_lock.client.cache_clear()
