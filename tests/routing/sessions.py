"""A second connection to the test's database, for what somebody else does meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection


@contextmanager
def another_session() -> Iterator[psycopg.Connection]:
    """A connection in a transaction of its own, rolled back at the end."""
    given = connection.get_connection_params()
    given = {name: given[name] for name in ("dbname", "user", "password", "host", "port") if name in given}
    other = psycopg.connect(**given)
    try:
        yield other
    finally:
        other.close()
