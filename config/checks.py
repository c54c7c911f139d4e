"""What must hold before Rota starts: found by `manage.py check` and at every start, not at three in the morning."""

import math
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

NEVER_IN_QCLUSTER = "pool"


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
