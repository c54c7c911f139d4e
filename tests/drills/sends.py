"""Eight senders, 10,000 mails, ten of them killed at random moments: nobody is mailed twice, nobody is lost.

At most five minutes (500 mails, three kills and 40 seconds with --short) on a database of its own, dropped again. The
relay runs in a process of its own, counts every mail before it says that it took it, and is slow now and then so that
kills fall on every phase. Leases are cut short and the reaper runs all the time, so that the dead are taken over while
the others work: a minute of the drill is hours of a bad day. What is in doubt at the end is compared with the relay's
log, as a person would.
"""

import logging
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from django.db.models import Count

from outreach.flows.launching import launch
from outreach.flows.reaping import reap_all
from outreach.flows.sender import send_due, worker_name
from outreach.models import Campaign, Claim, Message, OutreachEvent, SendAttempt, Step
from outreach.moves.sending import why_off
from routing.models import Lead, Team
from tests.outreach.relays import Sink, sink

Say = Callable[[str], None]
FORK = multiprocessing.get_context("fork")
WORKERS = 8
LEASE_S = 8
LIMIT_S = {"short": 40, "full": 300}


def run(*, short: bool, seed: int, say: Say) -> dict[str, Any]:
    """Do it and return the figures in the form of every drill."""
    messages, kills = (500, 3) if short else (10_000, 10)
    began = time.monotonic()
    limit_s = LIMIT_S["short" if short else "full"]
    with (
        tempfile.TemporaryDirectory(prefix="rota-drill-") as folder,
        own_database(say),
        sink(Path(folder), slow_ms=40 if short else 8, seed=seed) as relay,
    ):
        plan(messages, say)
        killed = work(relay, kills=kills, seed=seed, until=began + limit_s, say=say)
        seconds = time.monotonic() - began
        checks = count(relay, messages=messages, killed=killed, kills=kills)
    checks["seconds"] = {"value": round(seconds, 1), "limit": f"<= {limit_s}", "ok": seconds <= limit_s}
    return {
        "drill": "sends",
        "seed": seed,
        "seconds": round(seconds, 1),
        "checks": checks,
        "ok": all(check["ok"] for check in checks.values()),
    }


@contextmanager
def own_database(say: Say) -> Iterator[None]:
    """Point this process, and those it starts, at a fresh database on the same server."""
    given = dict(connection.settings_dict)
    name = f"rota_drill_{os.getpid()}"
    login = {"host": given["HOST"], "port": given["PORT"], "user": given["USER"], "password": given["PASSWORD"]}
    server = {key: value for key, value in login.items() if value} | {"dbname": given["NAME"], "autocommit": True}
    with psycopg.connect(**server) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    try:
        connections["default"].close()
        connections["default"].settings_dict["NAME"] = name
        say("migrating a database of its own ...")
        call_command("migrate", verbosity=0)
        yield
    finally:
        connections["default"].close()
        connections["default"].settings_dict["NAME"] = given["NAME"]
        with psycopg.connect(**server) as admin:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def plan(messages: int, say: Say) -> None:
    """One campaign with so many leads, launched; and the same list launched again, as a restarted cron would."""
    say(f"launching a campaign with {messages} leads ...")
    team = Team.objects.create(name="Drill")
    leads = [Lead(team=team, email=f"lead{n}@acme.example", first_name="Ann") for n in range(messages)]
    ids = [lead.pk for lead in Lead.objects.bulk_create(leads)]
    campaign = Campaign.objects.create(name="Drill", from_address="pat@rota.example")
    Step.objects.create(campaign=campaign, order=1, delay="0", subject="News", body="Hello {{ lead.first_name }}")
    why_off(worker="drill")
    for _ in range(2):
        launch(campaign_id=campaign.pk, leads=ids, by="drill")


def work(relay: Sink, *, kills: int, seed: int, until: float, say: Say) -> int:
    """Keep eight senders at it, kill some, reap, until nothing is due or held; return how many were killed at work."""
    chance = random.Random(seed)
    started = killed = 0
    workers: list[BaseProcess] = []
    total = Message.objects.count()
    next_kill = 0
    try:
        while time.monotonic() < until - 5:
            alive = [worker for worker in workers if worker.is_alive()]
            open_now = Message.objects.filter(status__in=["due", *Message.HELD]).count()
            if not open_now:
                break
            due = Message.objects.due().count()
            while len(alive) < WORKERS and due > 0:
                alive.append(start(relay, number=started))
                started += 1
            workers = alive
            gone = total - open_now
            busy = list(Claim.objects.live().values_list("worker", flat=True))
            if killed < kills and gone >= next_kill and busy:
                victim = chance.choice(busy)
                pid = int(victim.split(":")[1])
                if any(worker.pid == pid for worker in alive):  # its claim may outlive it
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
                    next_kill = gone + chance.randrange(1, max(2, total // (kills + 2)))
                    say(f"{gone} of {total} done, killed {victim} ({killed} of {kills})")
            reap_all()
            time.sleep(0.1 + chance.random() * 0.2)
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join()
    # A worker may have been stopped just now, its work done and its claim not yet ended: its lease runs out first.
    last = time.monotonic() + LEASE_S + 2
    while Claim.objects.live().exists() and time.monotonic() < last:
        reap_all()
        time.sleep(0.1)
    return killed


def start(relay: Sink, *, number: int) -> BaseProcess:
    """One sender in a process of its own, beside the others under a job lock of its own."""
    connections.close_all()  # a forked connection would be shared
    process = FORK.Process(target=send, args=(relay.port, number))
    process.start()
    return process


def send(port: int, number: int) -> None:
    """What a sender process runs: the product's own flow, with a lease shorter than the start-up check allows."""
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    settings.EMAIL_PHASE_TIMEOUT_S = settings.EMAIL_REPLY_TIMEOUT_S = 20
    settings.CLAIM_LEASE_S = LEASE_S
    logging.disable(logging.INFO)
    send_due(worker=worker_name(), job=f"sender {number}", budget_s=LIMIT_S["full"], batch=20)
    connections.close_all()
    os._exit(0)


def count(relay: Sink, *, messages: int, killed: int, kills: int) -> dict[str, dict[str, Any]]:
    """What the relay's log and the tables say together."""
    taken = relay.addresses()
    twice = sum(1 for times in taken.values() if times > 1)
    by_status = dict(Message.objects.values_list("status").annotate(Count("pk")))
    sent, in_doubt = by_status.get("sent", 0), by_status.get("in_doubt", 0)
    doubted = set(Message.objects.in_doubt().values_list("enrolment__address", flat=True))
    told_sent = set(Message.objects.filter(status="sent").values_list("enrolment__address", flat=True))
    lost = messages - len(told_sent | doubted)
    live = SendAttempt.objects.live().values("step", "recipient").annotate(n=Count("pk")).filter(n__gt=1).count()

    def check(value: Any, limit: str, ok: bool) -> dict[str, Any]:
        return {"value": value, "limit": limit, "ok": ok}

    return {
        "mailed_twice": check(twice, "0", twice == 0),
        "lost": check(lost, "0", lost == 0),
        "sent": check(sent, f"{messages} less those in doubt", sent + in_doubt == messages),
        "sent_but_not_at_relay": check(n := len(told_sent - set(taken)), "0", n == 0),
        "at_relay_but_not_known": check(n := len(set(taken) - told_sent - doubted), "0", n == 0),
        "in_doubt": check(in_doubt, f"<= {killed}, one for each kill", in_doubt <= killed),
        "in_doubt_delivered": check(n := len(doubted & set(taken)), f"<= {in_doubt}", n <= in_doubt),
        "live_intents_doubled": check(live, "0", live == 0),
        "claims_left": check(n := Claim.objects.live().count(), "0", n == 0),
        "killed_at_work": check(killed, str(kills), killed == kills),
        "expiries_logged": check(n := OutreachEvent.objects.filter(kind="expired").count(), ">= 1", n >= 1),
    }
