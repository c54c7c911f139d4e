"""Record what a sender delivered, so that the same event changes nothing the second time.

The database decides what is new: the event is inserted first and looked at afterwards. Each function is a move: call
inside a transaction.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from routing.models import Delivery, InboundEvent
from routing.normalise import unstorable


@dataclass(frozen=True)
class Recorded:
    """`verdict` is a Delivery.Verdict; `event` the event's key; `lead` its lead's key, None while it has none."""

    verdict: str
    event: int
    lead: int | None


@dataclass(frozen=True)
class Note:
    """Makes no lead now: `outcome` is fetching, with the id to `fetch`; or refused or ignored, `because`."""

    event_id: str
    said: dict[str, Any]
    outcome: str
    because: str = ""
    fetch: str = ""


def record(
    *, source_id: int, event_id: str, body: bytes, payload: dict[str, Any], request_id: str, strict: bool = True
) -> Recorded:
    """Record a delivery of an event. Call inside a transaction.

    The unique (source, event id) proves that one delivery makes the event. Its cost: a duplicate in flight waits here
    for the first one's commit, up to lock_timeout, and then raises psycopg's LockNotAvailable. An event that made no
    lead yet, for it was refused, is taken as new when it comes again. Where the id is not the delivery's but that of
    the thing reported (not `strict`), another body is the same event.
    """
    values: dict[str, Any] = {
        "source": source_id,
        "event": event_id,
        "digest": hashlib.sha256(body).hexdigest(),
        "payload": json.dumps(payload),
        "request": request_id,
        "body": body,
        "strict": strict,
    }
    with connection.cursor() as cursor:
        cursor.execute(INSERT_NEW, values)
        row = cursor.fetchone()
        if row:
            return Recorded(Delivery.Verdict.ACCEPTED, row[0], None)
        cursor.execute(INSERT_KNOWN, values)
        known = Recorded(*cursor.fetchone())
        if known.lead is not None:
            return known
        cursor.execute(TAKE_AGAIN, values)
        row = cursor.fetchone()
        if row:
            return Recorded(Delivery.Verdict.ACCEPTED, row[0], None)
        cursor.execute(INSERT_KNOWN, values)  # somebody else took it up meanwhile
        return Recorded(*cursor.fetchone())


def note_all(*, source_id: int, notes: Sequence[Note], body: bytes, request_id: str) -> set[str]:
    """Record one request and its events that make no lead now; return the ids of those that are new.

    Call inside a transaction. Events go in in the order of their ids, so that two deliveries of one batch never wait
    for each other crosswise; the later one finds nothing new.
    """
    ordered = sorted({note.event_id: note for note in notes}.values(), key=lambda note: note.event_id)
    values: dict[str, Any] = {
        "source": source_id,
        "request": request_id,
        "count": len(ordered),
        "name": ordered[0].event_id if len(ordered) == 1 else "",
        "digest": hashlib.sha256(body).hexdigest(),
        "body": body,
        "ids": [note.event_id for note in ordered],
        "digests": [hashlib.sha256(json.dumps(note.said).encode()).hexdigest() for note in ordered],
        "payloads": [json.dumps(storable(note.said)) for note in ordered],
        "outcomes": [note.outcome for note in ordered],
        "becauses": [note.because for note in ordered],
        "fetches": [note.fetch for note in ordered],
    }
    with connection.cursor() as cursor:
        cursor.execute(INSERT_NOTES, values)
        return {event_id for (event_id,) in cursor.fetchall()}


def refuse(*, source_id: int, event_id: str, body: bytes, payload: dict[str, Any], because: str) -> None:
    """Keep an event of which no lead could be made, for a person to replay. Call inside a transaction.

    An event that has its lead already is left alone.
    """
    values: dict[str, Any] = {
        "source": source_id,
        "event": event_id,
        "digest": hashlib.sha256(body).hexdigest(),
        "payload": json.dumps(storable(payload)),
        "because": because,
    }
    with connection.cursor() as cursor:
        cursor.execute(REFUSE, values)


def storable(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload, or nothing where Postgres cannot store it: NUL, halves of surrogate pairs, infinite numbers."""
    return {} if next(unstorable(payload), None) else payload


def lock_unlanded(*, event: int) -> InboundEvent | None:
    """The event, locked until our commit, if it has no lead yet. Call inside a transaction.

    The lock proves that nobody else makes a lead of it meanwhile; the loser waits up to lock_timeout, and finds it has
    one.
    """
    return InboundEvent.objects.select_for_update(no_key=True).filter(pk=event, lead=None).first()


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

# The event is there and has no lead. The update waits for whoever else takes it up.
TAKE_AGAIN = """
    WITH event AS (
        UPDATE routing_inboundevent
           SET outcome = '', because = '', digest = %(digest)s, payload = %(payload)s
         WHERE source_id = %(source)s AND event_id = %(event)s AND lead_id IS NULL
        RETURNING id),
    queued AS (
        UPDATE routing_fetch SET due_at = NULL, claim = NULL FROM event WHERE routing_fetch.event_id = event.id),
    delivery AS (
        INSERT INTO routing_delivery (source_id, request_id, event_id, verdict, digest, body)
             SELECT %(source)s, %(request)s, %(event)s, 'accepted', %(digest)s, %(body)s FROM event)
    SELECT id FROM event
"""
# A new statement, so that it sees the commit the first one waited for.
INSERT_KNOWN = """
    WITH event AS (
        SELECT id, lead_id, digest = %(digest)s OR NOT %(strict)s AS same FROM routing_inboundevent
         WHERE source_id = %(source)s AND event_id = %(event)s),
    delivery AS (
        INSERT INTO routing_delivery (source_id, request_id, event_id, verdict, digest, body)
             SELECT %(source)s, %(request)s, %(event)s, CASE WHEN same THEN 'replayed' ELSE 'conflicting' END,
                    %(digest)s, CASE WHEN same THEN NULL ELSE %(body)s::bytea END
               FROM event WHERE lead_id IS NOT NULL)
    SELECT CASE WHEN same THEN 'replayed' ELSE 'conflicting' END, id, lead_id FROM event
"""
INSERT_NOTES = """
    WITH given AS (
        SELECT * FROM unnest(%(ids)s::text[], %(digests)s::text[], %(payloads)s::text[], %(outcomes)s::text[],
                             %(becauses)s::text[], %(fetches)s::text[])
                   AS given(event_id, digest, payload, outcome, because, remote_id)),
    event AS (
        INSERT INTO routing_inboundevent (source_id, event_id, digest, payload, outcome, because)
             SELECT %(source)s, event_id, digest, payload::jsonb, outcome, because FROM given ORDER BY event_id
        ON CONFLICT (source_id, event_id) DO NOTHING RETURNING id, event_id),
    queued AS (
        INSERT INTO routing_fetch (event_id, remote_id)
             SELECT event.id, given.remote_id FROM event JOIN given USING (event_id) WHERE given.remote_id <> ''),
    delivery AS (
        INSERT INTO routing_delivery (source_id, request_id, event_id, events, verdict, digest, body)
             SELECT %(source)s, %(request)s, %(name)s, %(count)s,
                    CASE WHEN brought THEN 'accepted' ELSE 'replayed' END, %(digest)s,
                    CASE WHEN brought THEN %(body)s::bytea END
               FROM (SELECT EXISTS (SELECT FROM event) AS brought) news)
    SELECT event_id FROM event
"""
REFUSE = """
    INSERT INTO routing_inboundevent (source_id, event_id, digest, payload, outcome, because)
         VALUES (%(source)s, %(event)s, %(digest)s, %(payload)s, 'refused', %(because)s)
    ON CONFLICT (source_id, event_id) DO UPDATE
       SET outcome = 'refused', because = excluded.because, digest = excluded.digest, payload = excluded.payload
     WHERE routing_inboundevent.lead_id IS NULL
"""
