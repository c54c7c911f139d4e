"""Which waiting messages bring a parent that the CRM does not have yet, and who has to wait for them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from crmsync.chunks import Candidate

# Record by record, each by index: as a join over all names Postgres may read every open message for each of them.
COMING = """
SELECT name.object, name.external_id, record.id, message.id,
       CASE WHEN message.status = 'pending' THEN message.due_at END
  FROM unnest(%s::text[], %s::text[]) AS name(object, external_id)
 CROSS JOIN LATERAL (
       SELECT id FROM crmsync_crmrecord AS r
        WHERE r.object = name.object AND r.external_id = name.external_id AND r.delivered_version IS NULL
        LIMIT 1) AS record
 CROSS JOIN LATERAL (
       SELECT id, status, due_at FROM crmsync_outboxmessage AS m
        WHERE m.record_id = record.id AND m.status IN ('pending', 'claimed')
        ORDER BY m.version LIMIT 1) AS message
"""


@dataclass(frozen=True, slots=True)
class Coming:
    """An open message that creates a record. `due_at`: None while it is being sent."""

    record_id: int
    message_id: int
    due_at: datetime | None


def parents_coming(names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Coming]:
    """The open messages that create these records (object, external id)."""
    wanted = set(names)
    if not wanted:
        return {}
    objects, external_ids = zip(*sorted(wanted), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(COMING, [list(objects), list(external_ids)])
        return {(object, key): Coming(*rest) for object, key, *rest in cursor.fetchall()}


def parents_first(candidates: Iterable[Candidate]) -> dict[int, datetime | None]:
    """Messages whose parent the CRM does not have yet while an older message brings it; with its due time if pending.

    Only an older message is waited for, so that two records that name each other cannot wait for ever.
    """
    coming = parents_coming(
        (parent["object"], parent["external_id"])
        for candidate in candidates
        for parent in candidate.parents
        if "external_id" in parent
        and (parent["object"], parent["external_id"]) != (candidate.object, candidate.external_id)
    )
    waiting: dict[int, datetime | None] = {}
    for candidate in candidates:
        for parent in candidate.parents:
            message = coming.get((parent["object"], parent.get("external_id", "")))
            if message and message.message_id < candidate.message_id:
                waiting[candidate.message_id] = message.due_at
    return waiting
