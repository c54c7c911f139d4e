"""Write down that the CRM deleted records, and what is to be sent afterwards."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection

# Of a deletion that took in a later write, the write is still to be sent: what settles puts it back.
HALF_DONE = """
UPDATE crmsync_outboxmessage SET operation = afterwards, afterwards = NULL
 WHERE id = ANY (%(ids)s) AND status = 'claimed' AND claim_id = %(token)s AND afterwards IS NOT NULL
RETURNING id, record_id
"""
DONE = """
UPDATE crmsync_outboxmessage
   SET status = 'delivered', settled_at = clock_timestamp(), claim_id = NULL, attempts = attempts + 1
 WHERE id = ANY (%(ids)s) AND status = 'claimed' AND claim_id = %(token)s AND operation = 'delete'
RETURNING id, record_id
"""
# The CRM has nothing of the record any more; whoever writes it next creates it.
FORGET = """
UPDATE crmsync_crmrecord
   SET crm_id = NULL, delivered_version = NULL, parents = '[]', written_as = '', found_owner = '', owner = '',
       looked_up_at = NULL
 WHERE id = ANY (%s)
"""


def mark_deleted(*, token: UUID, message_ids: Sequence[int]) -> tuple[int, list[int]]:
    """How many messages are delivered, and those that are now the write after their deletion, to be put back.

    Call inside a transaction that has locked their records.
    """
    given: dict[str, Any] = {"ids": list(message_ids), "token": token}
    with connection.cursor() as cursor:
        cursor.execute(HALF_DONE, given)
        half_done = cursor.fetchall()
        cursor.execute(DONE, {**given, "ids": sorted(set(message_ids) - {pk for pk, _ in half_done})})
        done = cursor.fetchall()
        cursor.execute(FORGET, [[record for _, record in half_done + done]])
    return len(done), [pk for pk, _ in half_done]
