"""Before the first write of a lead the org is asked whether it has that person: a Lead, or a Contact, with the address.

Whom it has is adopted, not doubled: the first write goes to that record, by its id, and brings Rota's key; from then on
the key is enough. A lead that was converted is adopted as the contact it became. Whom it does not have may be about to
become a contact of an account (accounts.py). Somebody who enters the same person between the question and the write is
not seen.
"""

import logging
from collections.abc import Sequence
from typing import Any

from django.conf import settings

from crmsync.chunks import Candidate
from crmsync.flows.accounts import contacts_of_accounts
from crmsync.gateway import KEYS_PER_QUERY, Org, soql
from crmsync.mapping import MANY_KINDS
from crmsync.models import CrmRecord, OutboxMessage
from crmsync.moves.adopt import Found, adopt

log = logging.getLogger(__name__)


def adopted(org: Org, rows: Sequence[Candidate]) -> set[int]:
    """Those messages of leads that go to other records than leads of their own: the org has the person already, or is
    to get a contact. That is written down first, and the rows are claimed anew.

    Rows of mass updates name their records by a key and are left alone. Raises CallFailed; nothing was written then.
    """
    asking = [row for row in rows if is_unknown(row)]
    if not asking:
        return set()
    ours = [row for row in asking if row.crm_id]
    found = became(org, {row.crm_id: row.record_id for row in ours}) if ours else {}
    new = [row for row in asking if not row.crm_id]
    people = find(org, sorted({email_of(row) for row in new}))
    found |= {row.record_id: one for row in new if (one := choose(row, people.get(email_of(row), [])))}
    found |= contacts_of_accounts(org, [row for row in new if not people.get(email_of(row))])
    for record_id in adopt(found):
        one = found[record_id]
        log.info("adopted record=%s as=%s id=%s account=%s", record_id, one.object, one.crm_id or "new", one.account)
    return {row.message_id for row in asking if row.record_id in found}


def follow_converted(org: Org, rows: Sequence[Candidate]) -> None:
    """Of rows that failed before: see whether the leads they point to were converted, and point to the contacts then.

    The org refuses what refers to a converted lead. Raises CallFailed; nothing was written then.
    """
    many = MANY_KINDS.get(rows[0].object, ())
    keys = {
        parent["external_id"]
        for row in rows
        if row.attempts
        for parent in row.parents
        if parent["relation"] in many and parent["object"] == "Lead" and "external_id" in parent
    }
    if not keys:
        return
    leads = CrmRecord.objects.filter(object="Lead", external_id__in=keys, written_as="", crm_id__isnull=False)
    known = {str(lead.crm_id): lead.pk for lead in leads}
    for record_id in adopt(became(org, known) if known else {}, converted=True):
        log.info("followed record=%s to the contact it became", record_id)


def is_unknown(row: Candidate) -> bool:
    return (
        row.object == "Lead"
        and not row.looked_up
        and row.priority == OutboxMessage.Priority.INTERACTIVE
        and bool(row.fields.get("email") or row.crm_id)
    )


def email_of(row: Candidate) -> str:
    return str(row.fields["email"]).casefold()


People = dict[str, list[dict[str, Any]]]


def find(org: Org, emails: Sequence[str]) -> People:
    """The org's leads and contacts with these addresses, by address; the one changed last first."""
    key = settings.CRM_EXTERNAL_ID_FIELD
    people: People = {}
    for start in range(0, len(emails), KEYS_PER_QUERY):
        part = list(emails[start : start + KEYS_PER_QUERY])
        of_leads = f"SELECT Id, Email, OwnerId, {key}, IsConverted, ConvertedContactId FROM Lead WHERE Email IN {{}}"
        of_contacts = f"SELECT Id, Email, OwnerId, {key}, AccountId FROM Contact WHERE Email IN {{}}"
        for asked in (of_leads, of_contacts):
            for record in org.query(soql(f"{asked} ORDER BY SystemModstamp DESC", part)):
                people.setdefault(str(record["Email"]).casefold(), []).append(record)
    return people


def became(org: Org, records: dict[str, int]) -> dict[int, Found]:
    """The contacts that leads of ours were converted to, by our record; `records`: ours by the org's id."""
    asked = (
        "SELECT Id, ConvertedContactId FROM Lead WHERE IsConverted = true AND ConvertedContactId != null AND Id IN {}"
    )
    into = {lead["ConvertedContactId"]: records[lead["Id"]] for lead in org.query(soql(asked, list(records)))}
    if not into:
        return {}
    contacts = org.query(soql("SELECT Id, OwnerId, AccountId FROM Contact WHERE Id IN {}", list(into)))
    return {
        into[one["Id"]]: Found("Contact", one["Id"], owner=one["OwnerId"], account=one["AccountId"] or "")
        for one in contacts
    }


def choose(row: Candidate, people: Sequence[dict[str, Any]]) -> Found | None:
    """An open lead before the contact that one became, before any other contact. One that has a key already is Rota's
    under that key, or this very lead, and stays as it is."""
    key = settings.CRM_EXTERNAL_ID_FIELD
    leads = [one for one in people if "IsConverted" in one]
    contacts = [one for one in people if "AccountId" in one]
    for lead in leads:
        if not lead["IsConverted"] and not lead[key]:
            return Found("Lead", lead["Id"], owner=lead["OwnerId"])
    if any(str(lead[key] or "").casefold() == row.external_id.casefold() and not lead["IsConverted"] for lead in leads):
        return None
    became = {lead["ConvertedContactId"] for lead in leads if lead["IsConverted"]}
    for contact in sorted(contacts, key=lambda one: one["Id"] not in became):
        if not contact[key] or str(contact[key]).casefold() == row.external_id.casefold():
            return Found("Contact", contact["Id"], owner=contact["OwnerId"], account=contact["AccountId"] or "")
    return None
