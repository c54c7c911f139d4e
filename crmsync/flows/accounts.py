"""Leads of accounts that the org knows, where people chose so: contacts under that account, not leads.

Asked for people whom the org has neither as a lead nor as a contact. An account that the org does not know makes no
contact: its leads are leads, and why is written on their records.
"""

import logging
import re
from collections.abc import Sequence

from crmsync.chunks import Candidate
from crmsync.gateway import Org
from crmsync.lockkeys import long_id
from crmsync.models import AccountLeads
from crmsync.moves.adopt import Found, note_why

log = logging.getLogger(__name__)

ACCOUNT_ID = re.compile(r"001[A-Za-z0-9]{12}([A-Za-z0-9]{3})?")
ACCOUNT = "matched_account"
"""The field by which a lead's message carries the org's id of its account."""


def contacts_of_accounts(org: Org, rows: Sequence[Candidate]) -> dict[int, Found]:
    """Those of these new people, by their record, who are to be contacts, and of which account. Raises CallFailed."""
    wanted = {row.record_id: account for row in rows if (account := account_of(row))}
    if not wanted or not AccountLeads.become_contacts():
        return {}
    known = org.names_of("Account", sorted(set(wanted.values())))
    missing = {record: account for record, account in wanted.items() if account not in known}
    if missing:
        log.warning("accounts not in the CRM accounts=%s leads=%s", sorted(set(missing.values())), len(missing))
        note_why({record: f"The CRM has no Account {account}." for record, account in missing.items()})
    return {
        record: Found("Contact", "", owner="", account=account)
        for record, account in wanted.items()
        if account in known
    }


def account_of(row: Candidate) -> str:
    """The org's id of the lead's account, in the long form that its first 15 letters have; "": none."""
    given = str(row.fields.get(ACCOUNT) or "")
    return long_id(given[:15]) if ACCOUNT_ID.fullmatch(given) else ""
