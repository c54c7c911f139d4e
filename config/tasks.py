"""Tasks that belong to no app."""

import logging

from config import crm_owners, crm_users
from crmsync.errors import CallFailed, NotConfigured

log = logging.getLogger(__name__)


def beat() -> None:
    """Do nothing: that it was done shows that its queue is being worked on."""


def match_crm_users() -> dict[str, int]:
    """Find the CRM users of reps who have none yet, and say whose are of no use any more."""
    done = crm_users.match_crm_users()
    for email in done.inactive:
        log.warning("crm user inactive rep=%s", email)
    return {"matched": done.matched, "missing": len(done.missing), "inactive": len(done.inactive)}


def read_back_owners() -> dict[str, int]:
    """Follow what people changed in the CRM since the last look; an org that does not answer is asked again."""
    try:
        return crm_owners.read_back_owners().as_counts()
    except (NotConfigured, CallFailed) as error:
        log.info("owners not read back: %s", error)
        return {}
