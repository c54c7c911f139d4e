"""What the CRM says about who owns a record, against what Rota last wrote there."""

from collections.abc import Mapping
from datetime import datetime

from django.db import connection

from crmsync.models import OrgState

# Rota's own word may still be on its way: then what the CRM has now is only the past. A record whose owner Rota never
# wrote has nothing to compare with.
FOREIGN = """
SELECT r.external_id, left(r.found_owner, 15) = left(org.owner, 15)
  FROM crmsync_crmrecord r JOIN unnest(%(keys)s::text[], %(owners)s::text[]) AS org(key, owner)
    ON org.key = r.external_id
 WHERE r.object = 'Lead' AND r.owner <> '' AND left(r.owner, 15) <> left(org.owner, 15)
   AND NOT EXISTS (SELECT FROM crmsync_outboxmessage m
                    WHERE m.record_id = r.id AND m.status IN ('pending', 'claimed') AND m.fields ? 'owner')
 ORDER BY r.external_id
"""
# Proves: no version of the record is drawn or settled until we commit. Costs: whoever does waits for this transaction.
HOLD = "SELECT FROM crmsync_crmrecord WHERE object = 'Lead' AND external_id = %s FOR NO KEY UPDATE"
ACKNOWLEDGE = """
UPDATE crmsync_crmrecord r SET owner = %(owner)s
 WHERE r.object = 'Lead' AND r.external_id = %(key)s AND r.owner <> '' AND left(r.owner, 15) <> left(%(owner)s, 15)
   AND NOT EXISTS (SELECT FROM crmsync_outboxmessage m
                    WHERE m.record_id = r.id AND m.status IN ('pending', 'claimed') AND m.fields ? 'owner')
"""
READ_UNTIL = """
INSERT INTO crmsync_orgstate (id, owners_read_until) VALUES (1, %s)
ON CONFLICT (id) DO UPDATE
    SET owners_read_until = greatest(crmsync_orgstate.owners_read_until, excluded.owners_read_until)
"""


def foreign(owners: Mapping[str, str]) -> list[tuple[str, bool]]:
    """Those of the leads (their keys, and their owners in the CRM) that Rota did not give to this owner; and whether
    they had that owner before Rota first wrote them."""
    with connection.cursor() as cursor:
        cursor.execute(FOREIGN, {"keys": list(owners), "owners": list(owners.values())})
        return list(cursor.fetchall())


def acknowledge(*, external_id: str, owner: str) -> bool:
    """From now on this is the owner that the CRM is known to have. Call inside the transaction that acts on it.

    False, and nothing was changed: Rota has meanwhile written, or is about to write, another owner.
    """
    with connection.cursor() as cursor:
        cursor.execute(HOLD, [external_id])
        cursor.execute(ACKNOWLEDGE, {"key": external_id, "owner": owner})
        return cursor.rowcount == 1


def read_until() -> datetime | None:
    """Up to when, by the org's clock, changes of owners were read back; None: never yet."""
    return OrgState.objects.values_list("owners_read_until", flat=True).first()


def set_read_until(moment: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(READ_UNTIL, [moment])


def any_adopted_contact() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM crmsync_crmrecord WHERE written_as = 'Contact')")
        (found,) = cursor.fetchone()
    return bool(found)
