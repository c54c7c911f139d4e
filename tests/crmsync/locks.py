"""Database locks held by the test on a connection of its own, to stop others where it wants them."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.crmsync.rows import eventually, run_sql
from tests.database import database_url


@contextmanager
def row_locked(table: str, where: str) -> Iterator[None]:
    with psycopg.connect(database_url()) as other:
        other.execute(f"SELECT 1 FROM {table} WHERE {where} FOR UPDATE")
        yield
        other.rollback()


@contextmanager
def table_locked(table: str, mode: str) -> Iterator[None]:
    with psycopg.connect(database_url()) as other:
        other.execute(f"LOCK TABLE {table} IN {mode} MODE")
        yield
        other.rollback()


def somebody_waits_for(table: str) -> None:
    """Return once a connection waits for a lock on the table."""
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
    eventually(lambda: run_sql(waiting, [table]), seconds=30, what=f"somebody waits for {table}")
