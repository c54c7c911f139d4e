"""Find the CRM user of each rep by e-mail address, so that the CRM shows the lead's right owner."""

from dataclasses import dataclass

from django.db import transaction

from crmsync.gateway import connect
from routing.models import Rep


@dataclass(frozen=True)
class Matched:
    """How many reps were given a CRM user, and the e-mail addresses of those for whom the CRM has none."""

    matched: int
    missing: list[str]


def match_crm_users() -> Matched:
    """Give every rep without a CRM user the active one with the same e-mail address. Raises the gateway's errors."""
    wanting = list(Rep.objects.filter(retired_at=None, crm_user_id="").order_by("pk"))
    if not wanting:
        return Matched(0, [])
    found = connect().users_by_email([rep.email for rep in wanting])
    matched = 0
    with transaction.atomic(durable=True):
        for rep in wanting:
            crm_user_id = found.get(rep.email.lower(), "")
            if crm_user_id:
                matched += Rep.objects.filter(pk=rep.pk, crm_user_id="").update(crm_user_id=crm_user_id)
    return Matched(matched, [rep.email for rep in wanting if rep.email.lower() not in found])
