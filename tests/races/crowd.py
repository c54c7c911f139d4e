"""Let many people do things at the same moment, each over a database connection of their own.

No sleeps: everybody starts at a barrier, and whoever needs a certain state waits until the database shows it.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from routing.intake import Accepted, accept, take_turn_of_new
from routing.models import InboundSource, Lead, Team, TeamPart
from routing.turns import Turn
from tests.make import make_email, make_payload

PATIENCE_S = 60


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Call work(0) to work(count - 1) in threads that start together. What a call raised stands in its place."""
    if count > 60 and free_connections() < count + 20:
        pytest.skip(f"{count} at once need {count + 20} free connections; the server has {free_connections()}")
    answers: list[Any] = [None] * count
    start = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            try:
                connection.ensure_connection()
                start.wait(PATIENCE_S)
            except BaseException:
                start.abort()
                raise
            answers[number] = work(number)
        except BaseException as fault:
            answers[number] = fault
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def free_connections() -> int:
    return int(
        scalar(
            "SELECT current_setting('max_connections')::int - count(*) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend'"
        )
    )


@contextmanager
def beside(work: Callable[[], Any]) -> Iterator[list[Any]]:
    """Do `work` in a thread meanwhile. The list holds its answer once the block is left; what it raised is raised."""
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as fault:
            answers.append(fault)
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield answers
    finally:
        thread.join()
    if isinstance(answers[0], BaseException):
        raise answers[0]


@contextmanager
def second_connection() -> Iterator[BaseDatabaseWrapper]:
    """Another connection of this thread, for whoever stands in the way."""
    other = connection.copy()
    try:
        yield other
    finally:
        other.close()


@contextmanager
def turnstile_held(team: Team) -> Iterator[None]:
    """Somebody holds the team's turnstile, in a transaction that stays open."""
    with second_connection() as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT pg_advisory_xact_lock(turnstile_key(%s))", [team.pk])
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")


def until(condition: Callable[[], Any]) -> Any:
    """Wait until the condition holds, and return what it returned."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "It never came to that."
        threading.Event().wait(0.002)
    return found


def waiting_for_a_lock(kind: str = "advisory") -> int:
    """How many connections to this database wait for a lock of this kind: advisory, tuple, transactionid."""
    scalar("SELECT pg_stat_clear_snapshot()")  # inside a transaction the list of connections stands still
    return int(
        scalar(
            "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE NOT granted AND locktype = %s AND datname = current_database()",
            kind,
        )
    )


def scalar(query: str, *values: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchone()[0]


def rows(query: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return list(cursor.fetchall())


def take_in(source: InboundSource, *, event_id: str = "", **fields: Any) -> Accepted:
    """The whole intake of one event, as the webhook does it."""
    payload = make_payload(**fields)
    return accept(
        source=source,
        event_id=event_id or uuid.uuid4().hex,
        body=json.dumps(payload).encode(),
        payload=payload,
        request_id="race",
    )


def take_in_for(team: Team, part: TeamPart | None, **fields: Any) -> tuple[int, Turn]:
    """A lead that only some of the team may take: committed as waiting, then its turn, as in the intake."""
    lead = Lead.objects.create(team=team, part=part, email=make_email(), **fields)
    return lead.pk, take_turn_of_new(team_id=team.pk, lead_id=lead.pk)


def faults(answers: list[Any]) -> list[BaseException]:
    return [answer for answer in answers if isinstance(answer, BaseException)]
