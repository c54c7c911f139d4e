"""How fast past leads are simulated under a draft, beside merely reading the same rows; and that nothing is written."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from django.db import connection, transaction

from routing import rule_books
from routing.models import Lead, RuleBook
from routing.simulate import Differences, Side, of_leads, simulate
from tests.bench._result import Bench, Say, Target, machine
from tests.bench.turns import throw_away_database
from tests.make import make_source, make_team, publish_rules

LEADS, RULES, TEAMS, REPS = 10_000, 20, 4, 5
TARGETS = {"vs_reading": Target(">=", 0.1), "rows_written": Target("<=", 0)}


def run(*, short: bool, say: Say) -> Bench:
    rounds = 3 if short else 7
    on = machine()
    with throw_away_database(say):
        say(f"{LEADS:,} leads, {RULES} rules ...")
        prepare()
        read_rows()
        rehearsed()  # both once, so that neither pays for what is read or planned for the first time
        before, reading, simulating = rows_written(), [], []
        for number in range(rounds):
            reading.append(seconds_of(read_rows)[0])
            took, found = seconds_of(rehearsed)
            simulating.append(took)
            say(f"round {number + 1} of {rounds}: {LEADS / took:,.0f} leads/s, reading {LEADS / reading[-1]:,.0f}/s")
        written = rows_written() - before
    ratio = statistics.median(one / other for one, other in zip(reading, simulating, strict=True))
    details = {
        "leads": found.leads,
        "decided_differently": found.different,
        "simulated_per_second": round(LEADS / statistics.median(simulating)),
        "read_per_second": round(LEADS / statistics.median(reading)),
        "seconds": round(statistics.median(simulating), 2),
    }
    return Bench(
        "simulate", rounds, {"vs_reading": round(ratio, 3), "rows_written": float(written)}, TARGETS, details, on
    )


def prepare() -> None:
    """Rules that look at a number, with a draft in which half of them lead to the next team."""
    teams = [make_team(reps=REPS) for _ in range(TEAMS)]
    source = make_source(team=teams[0])

    def rules(shift: int) -> list[dict[str, Any]]:
        each = LEADS // RULES
        return [
            {
                "name": f"Size {number}",
                "team": teams[(number + shift * (number % 2)) % TEAMS],
                "conditions": [("fields.size", "less_than", str((number + 1) * each)), ("country", "is", "FR")],
            }
            for number in range(RULES)
        ]

    publish_rules(*rules(0))
    with transaction.atomic():
        rule_books.replace_rules(row=rule_books.draft(), wanted=rules(1))
    with connection.cursor() as cursor:
        cursor.execute(INSERT, {"team": teams[0].pk, "source": source.slug, "leads": LEADS})


def read_rows() -> list[Lead]:
    """The ceiling: the same rows, read the same way, and nothing done with them."""
    return list(Lead.objects.order_by("-pk")[:LEADS])


def rehearsed() -> Differences:
    """What the page and the command do."""
    books = {book.status: book for book in RuleBook.objects.all()}
    now = Side(rule_books.read(books[RuleBook.Status.PUBLISHED]))
    draft = books[RuleBook.Status.DRAFT]
    then = Side(rule_books.read(draft), rule_books.members_of(draft))
    return simulate(samples=of_leads(read_rows()[::-1]), now=now, then=then)


def rows_written() -> int:
    """Rows inserted, changed or deleted in this database so far, by Postgres's own count."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT tup_inserted + tup_updated + tup_deleted FROM pg_stat_database WHERE datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    done = work()
    return time.perf_counter() - began, done


INSERT = """
    INSERT INTO routing_lead (team_id, email, country, fields, why)
    SELECT %(team)s, n || '@acme.example', CASE WHEN n %% 5 = 0 THEN 'DE' ELSE 'FR' END,
           jsonb_build_object('size', n::text), jsonb_build_object('source', %(source)s::text)
      FROM generate_series(1, %(leads)s) AS n
"""
