"""Write down what a lead of Rota's is in the org, before the first write goes there: a record that the org had, or a
contact that is to be created under an account."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from crmsync.moves.settle import lock_records


@dataclass(frozen=True, slots=True)
class Found:
    """A record that the org had before: a Lead, or a Contact of an account (its id; "" without one). Without an id of
    its own it is yet to be created there."""

    object: str
    crm_id: str
    owner: str
    account: str = ""


# Its form there is not confirmed until the first write has arrived.
ADOPT = """
UPDATE crmsync_crmrecord AS r
   SET crm_id = nullif(u.crm_id, ''), written_as = u.written_as, found_owner = u.owner, parents = u.parents,
       delivered_version = NULL, looked_up_at = clock_timestamp(), no_contact_because = ''
  FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::jsonb[])
       AS u(id, crm_id, written_as, owner, parents)
 WHERE r.id = u.id AND (r.looked_up_at IS NULL OR (%s AND r.written_as = '')) RETURNING r.id
"""


def adopt(found: Mapping[int, Found], *, converted: bool = False) -> list[int]:
    """The records, by their ids here, that are one of the org's from now on; those known already are left out.

    `converted`: they are leads that the org has made contacts of since Rota knew them.
    """
    if not found:
        return []
    ids = sorted(found)
    values: list[Any] = [
        ids,
        [found[each].crm_id for each in ids],
        ["" if found[each].object == "Lead" else found[each].object for each in ids],
        [found[each].owner for each in ids],
        [parents_of(found[each]) for each in ids],
        converted,
    ]
    with transaction.atomic(durable=True):
        lock_records(ids)
        with connection.cursor() as cursor:
            cursor.execute(ADOPT, values)
            return [row[0] for row in cursor.fetchall()]


NO_CONTACT = """
UPDATE crmsync_crmrecord AS r SET no_contact_because = u.because
  FROM unnest(%s::bigint[], %s::text[]) AS u(id, because)
 WHERE r.id = u.id AND r.looked_up_at IS NULL AND r.no_contact_because <> u.because
"""


def note_why(because: Mapping[int, str]) -> None:
    """Say of these records, by their ids here, why they are no contacts of their account."""
    if because:
        ids = sorted(because)
        with transaction.atomic(durable=True):
            lock_records(ids)
            with connection.cursor() as cursor:
                cursor.execute(NO_CONTACT, [ids, [because[each] for each in ids]])


def parents_of(found: Found) -> str:
    account = {"relation": "Account", "object": "Account", "crm_id": found.account}
    return json.dumps([account] if found.account else [])
