"""Carry what waits to the CRM: claim, say so, call, write down what came of it; until nothing is left to do now.

Between claim and settle a worker may die at any point. Before `begin` the reaper gives everything back; after it the
rows are sent again once the first call can no longer commit. No transaction is open while the CRM is called.
"""

import logging
import os
import random
import socket
import time
from dataclasses import asdict, dataclass
from datetime import datetime

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from crmsync.chunks import Candidate
from crmsync.errors import CallFailed, ClaimLost, Fault
from crmsync.field_map import mapping_of
from crmsync.gateway import Org, Row, connect
from crmsync.mapping import MAPPING, body
from crmsync.models import Operation
from crmsync.moves.begin import begin, release
from crmsync.moves.claim import Chunk, claim_next
from crmsync.moves.settle import Outcome, Settled, settle
from crmsync.nudge import nudge

log = logging.getLogger(__name__)

SETTLE_PAUSES_S = (0.1, 0.4, 1.6, 3.2)


@dataclass
class Delivery:
    """What one drain did. `more`: its time ran out while something was still due."""

    chunks: int = 0
    delivered: int = 0
    put_back: int = 0
    dead: int = 0
    claims_lost: int = 0
    more: bool = False

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
        if chunk is None:
            return done
        if wake_others and chunk.is_mass:
            nudge()
        try:
            settled = send(chunk=chunk, org=org)
        except ClaimLost as lost:
            log.warning("claim lost worker=%s rows=%s %s", worker, len(chunk.rows), lost)
            done.claims_lost += 1
            continue
        done.chunks += 1
        done.delivered += settled.delivered
        done.put_back += settled.put_back
        done.dead += settled.dead


def send(*, chunk: Chunk, org: Org) -> Settled:
    """Sign in, begin, call and settle one chunk. Raises ClaimLost."""
    try:
        org.sign_in()
    except CallFailed as failed:
        return Settled(put_back=release(chunk=chunk, because=failed.fault, dice=random.random()))
    rows, refused = bodies(chunk)
    # From before `begin`, whose time the reaper counts from: a worker that was stopped meanwhile sends nothing stale.
    not_after = time.monotonic() + settings.CRM_TIMEOUT_S
    begin(chunk=chunk)
    whole_request: Fault | None = None
    outcomes = refused
    if rows:
        try:
            results = org.upsert(
                object=chunk.object,
                external_id_field=settings.CRM_EXTERNAL_ID_FIELD,
                rows=[row for _, row in rows],
                headers={
                    "Sforce-Call-Options": f"client=rota/{chunk.worker}",
                    "X-Request-Id": str(chunk.token),
                },
                not_after=not_after,
            )
            outcomes += [
                Outcome(row=candidate, crm_id=result.crm_id, fault=result.fault)
                for (candidate, _), result in zip(rows, results, strict=True)
            ]
        except CallFailed as failed:
            whole_request = failed.fault
            outcomes += [Outcome(row=candidate, fault=failed.fault) for candidate, _ in rows]
    settled = settle_patiently(chunk=chunk, outcomes=outcomes, whole_request=whole_request)
    log.info(
        "chunk settled object=%s rows=%s delivered=%s put_back=%s dead=%s token=%s",
        chunk.object, len(chunk.rows), settled.delivered, settled.put_back, settled.dead, chunk.token,
    )  # fmt: skip
    return settled


def bodies(chunk: Chunk) -> tuple[list[tuple[Candidate, Row]], list[Outcome]]:
    """The rows as Salesforce takes them, and those it never could."""
    if chunk.operation != Operation.UPSERT:
        fault = Fault("NO_ROAD", f"Rota cannot {chunk.operation} records yet.")
        return [], [Outcome(candidate, fault=fault) for candidate in chunk.rows]
    if chunk.object not in MAPPING:
        fault = Fault("NO_MAPPING", f"{chunk.object} has no field mapping.")
        return [], [Outcome(candidate, fault=fault) for candidate in chunk.rows]
    table = mapping_of(chunk.object)
    rows: list[tuple[Candidate, Row]] = []
    for candidate in chunk.rows:
        record = body(
            table=table,
            fields=candidate.fields,
            parents=candidate.parents,
            external_id_field=settings.CRM_EXTERNAL_ID_FIELD,
            creating=candidate.creating,
        )
        rows.append((candidate, Row(candidate.external_id, record)))
    return rows, []


def settle_patiently(*, chunk: Chunk, outcomes: list[Outcome], whole_request: Fault | None) -> Settled:
    """Settle, through a short outage of the database too: what the CRM said is worth a few tries.

    After the last one the reaper takes over and the rows are sent again.
    """
    for pause_s in SETTLE_PAUSES_S:
        try:
            return settle(chunk=chunk, outcomes=outcomes, whole_request=whole_request)
        except (OperationalError, InterfaceError) as error:
            log.warning("settle delayed token=%s error=%s", chunk.token, type(error).__name__)
            connection.close()
            time.sleep(pause_s)
    return settle(chunk=chunk, outcomes=outcomes, whole_request=whole_request)


SOON = """
SELECT greatest(
    (SELECT min(due_at) FROM (
        (SELECT due_at FROM crmsync_outboxmessage
          WHERE status = 'pending' AND priority = 0 AND due_at > clock_timestamp() ORDER BY due_at LIMIT 1)
        UNION ALL
        (SELECT due_at FROM crmsync_outboxmessage
          WHERE status = 'pending' AND priority = 1 AND due_at > clock_timestamp() ORDER BY due_at LIMIT 1)
     ) AS next),
    (SELECT paused_until FROM crmsync_orgstate WHERE paused_until > clock_timestamp()))
"""


def next_due_at() -> datetime | None:
    """When something that is waiting for its time, or for the end of a pause, can be sent; None: nothing is."""
    with connection.cursor() as cursor:
        cursor.execute(SOON)
        found: datetime | None = cursor.fetchone()[0]
    return found
