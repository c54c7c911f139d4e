"""Ask the org which of Rota's leads somebody else has given to another owner since the last look."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from crmsync.gateway import Org
from crmsync.lockkeys import long_id
from crmsync.moves.owners import any_adopted_contact, foreign, read_until, set_read_until

OVERLAP = timedelta(minutes=2)
"""A change is stamped when it is saved and seen when its transaction commits: a look begins this much earlier."""
FIRST_LOOK = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Changed:
    """A lead, by Rota's key, and the user or queue that owns it in the CRM now; `found`: it did before Rota knew it."""

    external_id: str
    owner: str
    found: bool


def changed_owners(org: Org) -> Iterator[Changed]:
    """What changed, page by page. How far it was read is remembered once the caller has taken the last one.

    Raises CallFailed; what the caller did not take is found again.
    """
    since = (read_until() or timezone.now() - FIRST_LOOK) - OVERLAP
    last = since
    for name in ("Lead", "Contact") if any_adopted_contact() else ("Lead",):
        key = settings.CRM_EXTERNAL_ID_FIELD
        soql = (
            f"SELECT {key}, OwnerId, SystemModstamp FROM {name} WHERE {key} != null "
            f"AND SystemModstamp >= {since.strftime('%Y-%m-%dT%H:%M:%SZ')}"
        )
        for page in org.pages(soql):
            owners = {row[key]: long_id(row["OwnerId"]) for row in page}
            last = max([last, *(stamp(row["SystemModstamp"]) for row in page)])
            yield from (Changed(external_id, owners[external_id], found) for external_id, found in foreign(owners))
    if last > since:
        set_read_until(last)


def stamp(text: str) -> datetime:
    """Salesforce's `2026-01-31T12:00:00.000+0000`."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")
