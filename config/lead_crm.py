"""What the CRM was told of a lead, for the lead's page. Here, because routing knows nothing of the CRM's tables."""

import uuid

from crmsync.models import OutboxMessage

MOST = 20


def messages_of(uid: uuid.UUID) -> list[OutboxMessage]:
    """The newest messages about the lead's record, newest first."""
    found = OutboxMessage.objects.filter(record__object="Lead", record__external_id=str(uid)).select_related("record")
    return list(found.order_by("-version")[:MOST])
