"""Which parents in the CRM the lock failures are about: one line per parent, the worst first."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from crmsync.lockkeys import long_id, record_key
from crmsync.models import OutboxMessage

MOST = 10_000
"""How many of the newest lock failures are looked at."""
ITSELF = "itself"


@dataclass(frozen=True)
class Contended:
    """A parent that was locked: `key` names it in an address, `label` to a person."""

    key: str
    object: str
    external_id: str
    count: int
    first_at: datetime
    last_at: datetime
    by_crm_id: bool = False

    @property
    def lane(self) -> str:
        """The key of the lane under which the parent is written."""
        if self.by_crm_id:
            return f"{self.object}#{long_id(self.external_id)}"
        return record_key(self.object, self.external_id)

    @property
    def label(self) -> str:
        return f"{self.object} {self.external_id}"


def contended(*, most: int = 10) -> list[Contended]:
    """The parents with the most lock failures. A message counts under each that it has; without one, under none."""
    with connection.cursor() as cursor:
        cursor.execute(BY_PARENT, [MOST, most])
        return [Contended(f"{row[0]}:{row[1]}", *row) for row in cursor.fetchall()]


def under(messages: QuerySet[Any], key: str) -> QuerySet[Any]:
    """Those of the messages that are under the parent of this key; `itself`: those that are under none."""
    adopted = ~Q(record__written_as="")
    if key == ITSELF:
        return messages.filter(parents=[]).exclude(adopted & ~Q(record__parents=[]))
    object_name, _, pk = key.partition(":")
    forms = [[{"object": object_name, "external_id": pk}], [{"object": object_name, "crm_id": pk}]]
    named = Q(parents__contains=forms[0]) | Q(parents__contains=forms[1])
    has = Q(record__parents__contains=forms[0]) | Q(record__parents__contains=forms[1])
    return messages.filter(named | (adopted & has))


def parents_in_words(message: OutboxMessage) -> str:
    """The parents that a message is under: "Account ACME-1"."""
    names = {
        f"{parent.get('object', '?')} {parent.get('external_id') or parent.get('crm_id') or '?'}": None
        for parent in (*message.parents, *(message.record.parents if message.record.written_as else ()))
    }
    return ", ".join(names)


# A message is under the parents that it names, and one of a lead that is a contact in the CRM under its account.
BY_PARENT = """
    SELECT parent ->> 'object', coalesce(parent ->> 'external_id', parent ->> 'crm_id'),
           count(*), min(dead.settled_at), max(dead.settled_at), NOT bool_or(parent ? 'external_id')
      FROM (SELECT record_id, parents, settled_at FROM crmsync_outboxmessage
             WHERE status = 'dead' AND failure_kind = 'contention'
             ORDER BY settled_at DESC LIMIT %s) dead
      JOIN crmsync_crmrecord r ON r.id = dead.record_id
     CROSS JOIN LATERAL (
           SELECT DISTINCT value FROM jsonb_array_elements(
                  CASE WHEN r.written_as = '' THEN dead.parents ELSE dead.parents || r.parents END)) AS under (parent)
     GROUP BY 1, 2 ORDER BY 3 DESC, 5 DESC LIMIT %s
"""
