"""Write down what happened to a message, or to a sender."""

from outreach.mail.storable import storable
from outreach.models import OutreachEvent

Kind = OutreachEvent.Kind
Layer = OutreachEvent.Layer


def tell(
    *,
    kind: OutreachEvent.Kind,
    layer: OutreachEvent.Layer,
    worker: str,
    message: int | None = None,
    claim: int | None = None,
    attempt: int | None = None,
    before: str = "",
    after: str = "",
    reason: str = "",
) -> None:
    """Add one event. In the transaction of what it tells, where that changes anything."""
    OutreachEvent.objects.create(
        kind=kind,
        layer=layer,
        worker=worker,
        message_id=message,
        claim_id=claim,
        attempt_id=attempt,
        before=before,
        after=after,
        reason=storable(reason[:200]),
    )
