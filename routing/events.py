"""Record what a sender delivered, so that the same event changes nothing the second time.

The database decides what is new: the event is inserted first and looked at afterwards.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from django.db import connection

from routing.models import Delivery


@dataclass(frozen=True)
class Recorded:
    """`verdict` is a Delivery.Verdict; `event` the event's key; `lead` its lead's key, None while the event is new."""

    verdict: str
    event: int
    lead: int | None


def record(*, source_id: int, event_id: str, body: bytes, payload: dict[str, Any], request_id: str) -> Recorded:
    """Record a delivery of an event. Call inside a transaction.

    The unique (source, event id) proves that one delivery makes the event. Its cost: a duplicate in flight waits here
    for the first one's commit, up to lock_timeout, and then raises psycopg's LockNotAvailable.
    """
    values: dict[str, Any] = {
        "source": source_id,
        "event": event_id,
        "digest": hashlib.sha256(body).hexdigest(),
        "payload": json.dumps(payload),
        "request": request_id,
        "body": body,
    }
    with connection.cursor() as cursor:
        cursor.execute(INSERT_NEW, values)
        row = cursor.fetchone()
        if row:
            return Recorded(Delivery.Verdict.ACCEPTED, row[0], None)
        cursor.execute(INSERT_KNOWN, values)
        return Recorded(*cursor.fetchone())


INSERT_NEW = """
    WITH event AS (
        INSERT INTO routing_inboundevent (source_id, event_id, digest, payload)
             VALUES (%(source)s, %(event)s, %(digest)s, %(payload)s)
        ON CONFLICT (source_id, event_id) DO NOTHING RETURNING id),
    delivery AS (
        INSERT INTO routing_delivery (source_id, request_id, event_id, verdict, digest, body)
             SELECT %(source)s, %(request)s, %(event)s, 'accepted', %(digest)s, %(body)s FROM event)
    SELECT id FROM event
"""

# A new statement, so that it sees the commit the first one waited for.
INSERT_KNOWN = """
    WITH event AS (
        SELECT id, lead_id, digest = %(digest)s AS same FROM routing_inboundevent
         WHERE source_id = %(source)s AND event_id = %(event)s),
    delivery AS (
        INSERT INTO routing_delivery (source_id, request_id, event_id, verdict, digest, body)
             SELECT %(source)s, %(request)s, %(event)s, CASE WHEN same THEN 'replayed' ELSE 'conflicting' END,
                    %(digest)s, CASE WHEN same THEN NULL ELSE %(body)s::bytea END
               FROM event)
    SELECT CASE WHEN same THEN 'replayed' ELSE 'conflicting' END, id, lead_id FROM event
"""
