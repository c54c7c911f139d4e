"""Settle, through a short outage of the database too: what the CRM said is worth a few tries."""

import logging
import time
from collections.abc import Callable

from django.db import InterfaceError, OperationalError, connection

from crmsync.moves.claim import Chunk
from crmsync.moves.pace import leave_place
from crmsync.moves.settle import Settled

log = logging.getLogger(__name__)

PAUSES_S = (0.1, 0.4, 1.6, 3.2)


def leave_early(chunk: Chunk) -> None:
    """Let another mass chunk begin while this one is settled. Never raises: what is wrong with the database the
    settlement will find too.
    """
    try:
        leave_place(token=chunk.token)
    except (OperationalError, InterfaceError) as error:
        log.warning("place not left token=%s error=%s", chunk.token, type(error).__name__)


def patiently(settle: Callable[[], Settled], *, chunk: Chunk) -> Settled:
    """After the last try somebody else takes over: the reaper sends the rows again, or the job is read again."""
    for pause_s in PAUSES_S:
        try:
            return told(settle(), chunk)
        except (OperationalError, InterfaceError) as error:
            log.warning("settle delayed token=%s error=%s", chunk.token, type(error).__name__)
            connection.close()
            time.sleep(pause_s)
    return told(settle(), chunk)


def told(settled: Settled, chunk: Chunk) -> Settled:
    log.info(
        "chunk settled object=%s road=%s rows=%s delivered=%s put_back=%s dead=%s token=%s",
        chunk.object, chunk.road, len(chunk.rows), settled.delivered, settled.put_back, settled.dead, chunk.token,
    )  # fmt: skip
    return settled
