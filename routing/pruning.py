"""Forget the bodies of old deliveries: they are there to look into a quarrel, and full of personal data.

The row stays, and so does what its events said. Rows come in the order of time, so pruning goes on where it stopped:
whatever was pruned last has an index of its own, for which nothing on the way in pays.
"""

import time

from django.db import connection, transaction

MOST = 1_000
BUDGET_S = 20


def prune_bodies(*, days: int, budget_s: float = BUDGET_S, most: int = MOST) -> int:
    """Forget bodies older than so many days, `most` rows a transaction, until none is left or the budget is spent.

    Return how many bodies that were.
    """
    pruned = 0
    until = time.monotonic() + budget_s
    while time.monotonic() < until:
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            cursor.execute(PRUNE, {"days": days, "most": most})
            (bodies, rows) = cursor.fetchone()
        pruned += bodies
        if rows < most:
            break
    return pruned


# Up to the first row that is young enough: one that began early and was committed late is still behind it.
PRUNE = """
    WITH old AS MATERIALIZED (
        SELECT id, received_at, verdict FROM routing_delivery
         WHERE id > coalesce((SELECT max(id) FROM routing_delivery WHERE pruned_at IS NOT NULL), 0)
         ORDER BY id LIMIT %(most)s),
    young AS (
        SELECT coalesce(min(id), 9223372036854775807) AS id FROM old
         WHERE received_at >= clock_timestamp() - make_interval(days => %(days)s)),
    pruned AS (
        UPDATE routing_delivery delivery SET body = NULL, pruned_at = clock_timestamp() FROM old, young
         WHERE delivery.id = old.id AND old.id < young.id
        RETURNING old.verdict)
    SELECT count(*) FILTER (WHERE verdict <> 'replayed'), count(*) FROM pruned
"""
