"""How many leads a second go through the whole intake, beside the same intake with a random rep and no turnstile."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from routing.models import InboundSource, Lead, Membership, Roster, Team
from routing.models.team import SCALE
from routing.sweep import sweep_team
from routing.turns import take_turns
from tests.bench import _works as works
from tests.bench._clients import CLIENTS, PROCESSES, Clients, Measured, clients
from tests.bench._result import Bench, Say, Target, machine
from tests.make import make_lead, make_source, make_team

REPS = 5
TARGETS = {"teams_1": Target(">=", 0.8), "teams_20": Target(">=", 0.8), "round_trips": Target("<=", 8)}
UNTIL_PLANNED = 10
"""Calls before anything is measured: by then a connection has made the plans it keeps."""


def run(*, short: bool, say: Say) -> Bench:
    rounds, seconds, backlog = (3, 1.5, 10_000) if short else (5, 4.0, 100_000)
    on = machine()
    with throw_away_database(say) as database:
        one = [make_source(team=make_team(reps=REPS)).pk]
        twenty = [make_source(team=make_team(reps=REPS)).pk for _ in range(20)]
        prepare_peer()
        say("round trips and the time of one turn ...")
        trips = round_trips(one[0])
        details: dict[str, Any] = {
            "clients": f"{CLIENTS} threads in {PROCESSES} processes, for ours and the peer alike",
            "reps_per_team": REPS,
            "under_turnstile_ms": time_of_a_turn(),
        }
        ratios: dict[str, float] = {}
        with clients(database) as crowd:
            for name, source_ids in (("teams_1", one), ("teams_20", twenty)):
                measured = interleaved(
                    crowd, source_ids, rounds, seconds, say=lambda line, name=name: say(f"{name} {line}")
                )
                ratios[name] = round(median_ratio(measured["ours"], measured["peer"]), 3)
                details[name] = {
                    "ours_over_bare": round(median_ratio(measured["ours"], measured["bare"]), 3),
                    **{way: figures(measured[way]) for way in measured},
                }
        ratios["round_trips"] = trips
        say(f"a backlog of {backlog:,} waiting leads ...")
        details["backlog"] = time_of_a_backlog(backlog)
        details["left_waiting"] = Lead.objects.waiting().count()
    return Bench("turns", rounds, ratios, TARGETS, details, on)


@contextmanager
def throw_away_database(say: Say, name: str = "bench_turns") -> Iterator[str]:
    """A database of its own on the same server, dropped afterwards."""
    say("making a throw-away database ...")
    before = connection.settings_dict["NAME"]
    connection.settings_dict["TEST"]["NAME"] = name
    database = connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield database
    finally:
        connection.creation.destroy_test_db(before, verbosity=0)


def prepare_peer() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE SEQUENCE bench_turn START 1000000000")
    Roster.objects.bulk_create(
        [Roster(team=team, digest="bench", candidates={}, skipped={}) for team in Team.objects.all()]
    )


def interleaved(
    crowd: Clients, source_ids: list[int], rounds: int, seconds: float, say: Say
) -> dict[str, list[Measured]]:
    """Ours, peer and the bare turn by turns; what is left waiting is given out in between."""
    ways: dict[str, Callable[..., Any]] = {"ours": works.ours, "peer": works.peer, "bare": works.bare}
    measured: dict[str, list[Measured]] = {way: [] for way in ways}
    for way in ways:
        crowd.run(ways[way], 0, least=4, source_ids=source_ids)
    for number in range(rounds):
        for way in ways:
            measured[way].append(crowd.run(ways[way], seconds / 2 if way == "bare" else seconds, source_ids=source_ids))
            give_out()
        told = ", ".join(f"{way} {each[-1].per_second:,.0f}/s" for way, each in measured.items())
        say(f"round {number + 1} of {rounds}: {told}")
    return measured


def give_out() -> None:
    for team_id in Lead.objects.waiting().values_list("team_id", flat=True).distinct():
        sweep_team(team_id=team_id)


def median_ratio(ours: list[Measured], theirs: list[Measured]) -> float:
    """The median of the rounds' ratios: whatever else the machine did, it did to both of a round."""
    return statistics.median(a.per_second / b.per_second for a, b in zip(ours, theirs, strict=True))


def figures(measured: list[Measured]) -> dict[str, Any]:
    answers: dict[str, int] = {}
    for one in measured:
        for answer, count in one.answers.items():
            answers[answer] = answers.get(answer, 0) + count
    return {
        "per_second": round(statistics.median(one.per_second for one in measured)),
        "p50_ms": round(statistics.median(one.p50_ms for one in measured), 1),
        "p95_ms": round(statistics.median(one.p95_ms for one in measured), 1),
        "answers": answers,
    }


def round_trips(source_id: int) -> int:
    """How often a webhook's lead goes to the server and back, counted in the trace of the protocol: its source, the
    transaction with BEGIN and COMMIT, the turn, the nudge.
    """
    slug = InboundSource.objects.get(pk=source_id).slug
    works.ours(number=0, source_ids=[source_id])()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_q_ormq")  # so that the nudge counted is one that is needed
    with tempfile.TemporaryFile("w+") as trace:
        connection.connection.pgconn.trace(trace.fileno())
        works.accept_one(slug)
        connection.connection.pgconn.untrace()
        trace.seek(0)
        return sum("ReadyForQuery" in line for line in trace)


def time_of_a_turn() -> dict[str, float]:
    """How long one turn holds the turnstile at most: a call for one waiting lead, alone, with its commit, less an empty
    round trip.
    """
    team = make_team(reps=REPS)
    for _ in range(UNTIL_PLANNED):
        take_turns(team_id=team.pk, lead_id=make_lead(team=team).pk)
    times = []
    with connection.cursor() as cursor:
        for _ in range(100):
            lead = make_lead(team=team)
            began = time.perf_counter()
            take_turns(team_id=team.pk, lead_id=lead.pk)
            turned = time.perf_counter()
            cursor.execute("SELECT 1")
            times.append(1000 * (2 * turned - began - time.perf_counter()))
    times.sort()
    return {"p50": round(statistics.median(times), 2), "p95": round(times[94], 2)}


def time_of_a_backlog(count: int) -> dict[str, Any]:
    team = make_team(reps=REPS)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO routing_lead (team_id, email)"
            " SELECT %s, n || '@acme.example' FROM generate_series(1, %s) AS n",
            [team.pk, count],
        )
    began, taken = time.perf_counter(), 0
    while taken < count:
        swept = sweep_team(team_id=team.pk)
        assert swept.taken, f"the sweep of a backlog ended at {taken} of {count}: {swept}"
        taken += swept.taken
    took = time.perf_counter() - began
    lags = Membership.objects.filter(team=team).values_list("lag", flat=True)
    return {
        "leads": count,
        "seconds": round(took, 1),
        "per_second": round(count / took),
        "worst_lag": round(max(map(abs, lags)) / SCALE, 3),
    }
