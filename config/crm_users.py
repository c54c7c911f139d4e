"""Find the CRM user of each rep by e-mail address, so that the CRM shows the lead's right owner."""

from dataclasses import dataclass

from django.db import transaction

from crmsync.doctor.asking import active_users
from crmsync.gateway import connect
from crmsync.lockkeys import long_id
from routing.models import Rep


@dataclass(frozen=True)
class Matched:
    """How many reps were given a CRM user; the e-mail addresses of those for whom the CRM has none, and of those whose
    CRM user is not active any more, so that the CRM refuses them as owners.
    """

    matched: int
    missing: list[str]
    inactive: list[str]


def match_crm_users() -> Matched:
    """Give every rep without a CRM user the active one with the same e-mail address. Raises the gateway's errors."""
    reps = list(Rep.objects.filter(retired_at=None).order_by("pk"))
    if not reps:
        return Matched(0, [], [])
    org = connect()
    wanting = [rep for rep in reps if not rep.crm_user_id]
    having = [rep for rep in reps if rep.crm_user_id]
    found = org.users_by_email([rep.email for rep in wanting])
    active = active_users(org, sorted({long_id(rep.crm_user_id) for rep in having}))
    matched = 0
    with transaction.atomic(durable=True):
        for rep in wanting:
            crm_user_id = found.get(rep.email.lower(), "")
            if crm_user_id:
                matched += Rep.objects.filter(pk=rep.pk, crm_user_id="").update(crm_user_id=crm_user_id)
    return Matched(
        matched=matched,
        missing=[rep.email for rep in wanting if rep.email.lower() not in found],
        inactive=[rep.email for rep in having if long_id(rep.crm_user_id) not in active],
    )
