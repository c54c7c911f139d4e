"""Carry what waits to the CRM: claim, say so, call, write down what came of it; until nothing is left to do now.

What people wait for comes first. Bulk jobs are carried on between the chunks of mass updates, one step at a time.
"""

import logging
import os
import socket
import time
from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import connection

from crmsync.errors import ClaimLost
from crmsync.flows.jobs import advance
from crmsync.flows.send import send
from crmsync.gateway import Org, connect
from crmsync.moves.claim import claim_next
from crmsync.moves.settle import Settled
from crmsync.nudge import nudge

log = logging.getLogger(__name__)


@dataclass
class Delivery:
    """What one drain did. `more`: its time ran out while something was still due."""

    chunks: int = 0
    job_steps: int = 0
    delivered: int = 0
    put_back: int = 0
    dead: int = 0
    claims_lost: int = 0
    more: bool = False

    def add(self, settled: Settled) -> None:
        self.delivered += settled.delivered
        self.put_back += settled.put_back
        self.dead += settled.dead

    def as_counts(self) -> dict[str, int | bool]:
        return asdict(self)


def worker_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def deliver(
    *,
    budget_s: float,
    worker: str = "",
    org: Org | None = None,
    mass_here: int | None = None,
    wake_others: bool = False,
) -> Delivery:
    """Send chunks for `budget_s` seconds or until nothing can be sent now. Call outside a transaction.

    `mass_here`: see `claim_next`. `wake_others`: with each mass chunk nudge one more worker, which stops where it finds
    nothing. Raises NotConfigured where there is no org to send to.
    """
    org = org or connect()
    worker = worker or worker_name()
    done = Delivery()
    until = time.monotonic() + budget_s
    while True:
        if time.monotonic() >= until:
            done.more = True
            return done
        chunk = claim_next(worker=worker, mass_here=mass_here)
        if wake_others and chunk is not None and chunk.is_mass:
            nudge()
        try:
            if chunk is not None:
                done.add(send(chunk=chunk, org=org))
                done.chunks += 1
            if chunk is None or chunk.is_mass:
                went_on = advance(worker=worker, org=org)
                if went_on is not None:
                    done.job_steps += 1
                    done.add(went_on)
                elif chunk is None:
                    return done
        except ClaimLost as lost:
            log.warning("claim lost worker=%s rows=%s %s", worker, len(chunk.rows) if chunk else "of a job", lost)
            done.claims_lost += 1


SOON = """
SELECT greatest(
    (SELECT min(due_at) FROM (
        (SELECT due_at FROM crmsync_outboxmessage
          WHERE status = 'pending' AND priority = 0 AND due_at > clock_timestamp() ORDER BY due_at LIMIT 1)
        UNION ALL
        (SELECT due_at FROM crmsync_outboxmessage
          WHERE status = 'pending' AND priority = 1 AND due_at > clock_timestamp() ORDER BY due_at LIMIT 1)
        UNION ALL
        (SELECT greatest(look_at, held_until) FROM crmsync_bulkjob
          WHERE NOT status IN ('harvested', 'aborted') ORDER BY look_at LIMIT 1)
     ) AS next),
    (SELECT paused_until FROM crmsync_orgstate WHERE paused_until > clock_timestamp()))
"""


def next_due_at() -> datetime | None:
    """When something that is waiting for its time, or for the end of a pause, can be sent; None: nothing is."""
    with connection.cursor() as cursor:
        cursor.execute(SOON)
        found: datetime | None = cursor.fetchone()[0]
    return found
