"""Ask the server for one thing that is a transaction of its own."""

from collections.abc import Mapping
from typing import Any, cast

from django.db import connection
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.transaction import TransactionManagementError


def call_alone(statement: str, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Execute one statement in autocommit and return its one row: what it did is committed before the answer comes.

    One round trip, where BEGIN and COMMIT would be two more; the values go beside the statement, not written into it,
    which takes the client half as long. Raises TransactionManagementError inside a transaction, whose end would decide
    whether any of it holds.
    """
    if connection.in_atomic_block:
        raise TransactionManagementError("This is durable only outside of any transaction.")
    connection.ensure_connection()
    bare = cast(Any, ServerBindingCursor)(connection.connection)
    with (connection.make_debug_cursor if connection.queries_logged else connection.make_cursor)(bare) as cursor:
        cursor.execute(statement, values)
        row: tuple[Any, ...] = cursor.fetchone()
    return row
