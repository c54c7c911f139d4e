"""What the CRM was told of a lead, for the lead's page. Here, because routing knows nothing of the CRM's tables."""

import uuid
from dataclasses import dataclass

from django.conf import settings

from crmsync.models import CrmRecord, OutboxMessage

MOST = 20


@dataclass(frozen=True, slots=True)
class Standing:
    """What the lead is in the CRM: the object, its id and the address of its page ("": not known), and the CRM's id of
    the account that it is under, as a contact. `because`: why it is no contact of its account."""

    object: str
    crm_id: str
    page: str
    account: str = ""
    account_page: str = ""
    because: str = ""


def standing_of(uid: uuid.UUID) -> Standing | None:
    """None: the CRM was told nothing of the lead."""
    record = CrmRecord.objects.filter(object="Lead", external_id=str(uid)).first()
    if record is None:
        return None
    accounts = [parent.get("crm_id", "") for parent in record.parents if parent["relation"] == "Account"]
    account = accounts[0] if accounts and record.written_as else ""
    crm_id = record.crm_id or ""
    return Standing(
        record.is_a, crm_id, page_of(crm_id), account, page_of(account), "" if account else record.no_contact_because
    )


def page_of(crm_id: str) -> str:
    """Where the org shows a record; the sandbox org, which is plain http, shows none."""
    return f"{settings.CRM_URL.rstrip('/')}/{crm_id}" if crm_id and settings.CRM_URL.startswith("https://") else ""


def messages_of(uid: uuid.UUID) -> list[OutboxMessage]:
    """The newest messages about the lead's record, newest first."""
    found = OutboxMessage.objects.filter(record__object="Lead", record__external_id=str(uid)).select_related("record")
    return list(found.order_by("-version")[:MOST])
