"""What must hold before Rota starts: found by `manage.py check` and at every start, not at three in the morning."""

import math
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError, connection

NEVER_IN_QCLUSTER = "pool"
POSTGRES_LEAST = 15


@register()
def transactions_are_ours(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """ATOMIC_REQUESTS would hold the turnstile across a client's round trip, and make durable transactions fail."""
    if settings.DATABASES["default"].get("ATOMIC_REQUESTS"):
        return [Error("ATOMIC_REQUESTS must be off: Rota opens its own short transactions.", id="rota.E001")]
    return []


@register()
def connections_outlive_a_poll(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """django-q2 closes obsolete connections at every broker call; with CONN_MAX_AGE 0 that is a reconnect per poll."""
    database = settings.DATABASES["default"]
    found: list[CheckMessage] = []
    if not database.get("CONN_MAX_AGE"):
        found.append(Error("CONN_MAX_AGE must be above 0, or every poll opens a new connection.", id="rota.E002"))
    if NEVER_IN_QCLUSTER in database.get("OPTIONS", {}):
        found.append(Error("A psycopg pool breaks in qcluster: forked workers share its sockets.", id="rota.E003"))
    return found


@register()
def queues_cannot_run_a_task_twice_by_impatience(
    app_configs: Sequence[Any] | None, **kwargs: Any
) -> list[CheckMessage]:
    """q2's `retry` runs from prefetch: a task may wait behind a full buffer of others before it starts."""
    found: list[CheckMessage] = []
    common = {key: value for key, value in settings.Q_CLUSTER.items() if key != "ALT_CLUSTERS"}
    for name, own in {"default": {}, **settings.Q_CLUSTER["ALT_CLUSTERS"]}.items():
        queue = {**common, **own}
        rounds = math.ceil((queue["queue_limit"] + queue["bulk"]) / queue["workers"]) + 1
        least = rounds * queue["timeout"] + 5
        if queue["retry"] < least:
            found.append(Error(f"Queue {name}: retry is {queue['retry']}, needed are {least}.", id="rota.E004"))
        wanted = {"ack_failures": True, "max_attempts": 1, "catch_up": False, "save_limit": -1}
        wrong = [key for key, value in wanted.items() if queue[key] != value]
        if wrong:
            found.append(Error(f"Queue {name}: {', '.join(wrong)} must be {wanted}: retries are ours.", id="rota.E005"))
    return found


@register(Tags.database)
def the_database_is_one_we_know(
    app_configs: Sequence[Any] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """The turn's proof needs READ COMMITTED, and its SQL needs Postgres 15. Runs in migrate and `./rota check`."""
    if "default" not in (databases or ()):
        return []
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "select current_setting('server_version_num')::int, current_setting('transaction_isolation')"
            )
            version, isolation = cursor.fetchone()
    except DatabaseError as error:
        return [Error(f"The database does not answer: {str(error).strip()}", id="rota.E006")]
    found: list[CheckMessage] = []
    if version < POSTGRES_LEAST * 10_000:
        found.append(Error(f"Postgres is {version // 10_000}, {POSTGRES_LEAST} or newer is needed.", id="rota.E007"))
    if isolation != "read committed":
        found.append(Error(f"The isolation level is {isolation}, it must be read committed.", id="rota.E008"))
    return found
