"""Forget what is old and full of personal data: bodies of deliveries, fetched answers, events that made no lead.

Of a delivery and of an event that made a lead the row stays, and so does what the event said. Rows come in the order of
time, so that each pruning stops at the first that is young.
"""

import time

from django.db import connection, transaction

from routing.models.inbound import STUCK

MOST = 1_000
BUDGET_S = 20


def prune_bodies(*, days: int, budget_s: float = BUDGET_S, most: int = MOST) -> int:
    """Forget bodies older than so many days, `most` rows a transaction, until none is left or the budget is spent.

    Return how many bodies that were. It goes on where it stopped: whatever was pruned last has an index of its own, for
    which nothing on the way in pays.
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


def prune_answers(*, days: int, budget_s: float = BUDGET_S, most: int = MOST) -> int:
    """Forget what a sender's API answered of events older than so many days that have their lead; return how many.

    An answer of which no lead could be made stays with its event: a person may still replay it.
    """
    pruned, after = 0, 0
    until = time.monotonic() + budget_s
    while time.monotonic() < until:
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            cursor.execute(ANSWERS, {"days": days, "most": most, "after": after})
            (answers, last, goes_on) = cursor.fetchone()
        pruned += answers
        if not goes_on:
            break
        after = last
    return pruned


def prune_stuck(*, days: int, budget_s: float = BUDGET_S, most: int = MOST) -> int:
    """Delete events older than so many days that were refused or not to be fetched and that nobody has replayed, with
    what was fetched of them; return how many. An event whose sender repeats it after that is looked at as a new one.
    """
    pruned = 0
    until = time.monotonic() + budget_s
    for outcome in STUCK:
        while time.monotonic() < until:
            with transaction.atomic(durable=True), connection.cursor() as cursor:
                cursor.execute(STUCK_EVENTS, {"days": days, "most": most, "outcome": outcome})
                (events,) = cursor.fetchone()
            pruned += events
            if events < most:
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

ANSWERS = """
    WITH head AS MATERIALIZED (
        SELECT asked.event_id, event.lead_id IS NOT NULL AS landed,
               event.received_at < clock_timestamp() - make_interval(days => %(days)s) AS old
          FROM routing_fetch asked JOIN routing_inboundevent event ON event.id = asked.event_id
         WHERE asked.answer IS NOT NULL AND asked.event_id > %(after)s
         ORDER BY asked.event_id LIMIT %(most)s),
    pruned AS (
        UPDATE routing_fetch asked SET answer = NULL FROM head
         WHERE asked.event_id = head.event_id AND head.old AND head.landed
        RETURNING 1)
    SELECT (SELECT count(*) FROM pruned), max(event_id), count(*) = %(most)s AND bool_and(old) FROM head
"""
# Proves: still without a lead when it goes. Whoever replays one at this moment keeps it.
STUCK_EVENTS = """
    WITH head AS MATERIALIZED (
        SELECT id, received_at < clock_timestamp() - make_interval(days => %(days)s) AS old
          FROM routing_inboundevent WHERE outcome = %(outcome)s AND lead_id IS NULL
         ORDER BY id LIMIT %(most)s FOR UPDATE SKIP LOCKED),
    fetched AS (
        DELETE FROM routing_fetch USING head WHERE event_id = head.id AND head.old),
    gone AS (
        DELETE FROM routing_inboundevent event USING head WHERE event.id = head.id AND head.old RETURNING 1)
    SELECT count(*) FROM gone
"""
