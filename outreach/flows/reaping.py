"""Every minute: take back what dead workers held, start and finish campaigns, log mails that the CRM is still owed."""

import logging
import time
from dataclasses import dataclass

from outreach.flows.resolving import resolve_in_doubt
from outreach.moves.activities import log_owed
from outreach.moves.agent_requests import prune_requests
from outreach.moves.campaigns import finish_done, start_due
from outreach.moves.lead_claims import expire_leads
from outreach.moves.reaper import reap

log = logging.getLogger(__name__)

BUDGET_S = 20
"""How long one run goes on; the next comes within a minute."""


@dataclass
class ReapedAll:
    """Claims that expired and what became of their messages and leads; campaigns started and finished; doubts that
    reports settled; mails whose leads have got a rep, so that the CRM is told of them."""

    claims: int = 0
    due: int = 0
    in_doubt: int = 0
    failed: int = 0
    started: int = 0
    finished: int = 0
    leads_free: int = 0
    leads_in_doubt: int = 0
    resolved: int = 0
    logged: int = 0


def reap_all() -> ReapedAll:
    """Do all of it in small transactions; harmless beside another run."""
    total = ReapedAll(started=start_due())
    until = time.monotonic() + BUDGET_S
    while time.monotonic() < until and (reaped := reap()).claims:
        total.claims += reaped.claims
        total.due += reaped.due
        total.in_doubt += reaped.in_doubt
        total.failed += reaped.failed
        log.warning("claims expired claims=%s due=%s in_doubt=%s failed=%s", *vars(reaped).values())
    total.resolved = resolve_in_doubt()
    total.logged = log_owed()
    total.finished = finish_done()
    total.leads_free, total.leads_in_doubt = expire_leads()
    prune_requests()
    return total
