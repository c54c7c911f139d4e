"""One answer to one idempotency key: the first request runs, the same again gets its answer, another is refused."""

from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from outreach.errors import KeyUsedOtherwise, StillUnderWay
from outreach.models import AgentRequest

STALE_S = 120
"""A request without an answer for so long died with its process (the web server ends one after 30 s): it may run again.

That is safe, for whatever it had done the moves notice: a message that has begun does not begin twice."""
KEPT_H = 24


@dataclass(frozen=True)
class Opened:
    """The request's row; `code` and `answer` where it was answered before."""

    pk: int
    code: int | None = None
    answer: Any = None


def open_request(*, agent_id: int, key: str, digest: str) -> Opened:
    """Take the key for this request, or find what it was answered. Opens a transaction.

    The unique index decides who runs it. Raises KeyUsedOtherwise where the key came with another request before,
    StillUnderWay where the first one has no answer yet.
    """
    values: dict[str, Any] = {"agent": agent_id, "key": key, "digest": digest, "stale": STALE_S}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(TAKE, values)
        row = cursor.fetchone()
        if row is not None:
            return Opened(row[0])
        known = AgentRequest.objects.filter(agent_id=agent_id, key=key).first()
    if known is None:
        raise StillUnderWay  # it failed and was dropped between our two statements
    if known.digest != digest:
        raise KeyUsedOtherwise
    if known.code is None:
        raise StillUnderWay
    return Opened(known.pk, known.code, known.answer)


def answer_request(*, pk: int, code: int, answer: Any) -> None:
    """Keep the answer, before it is given."""
    AgentRequest.objects.filter(pk=pk).update(code=code, answer=answer)


def drop_request(*, pk: int) -> None:
    """Forget a request that failed without an answer: it may be sent again."""
    AgentRequest.objects.filter(pk=pk, code=None).delete()


def prune_requests(*, most: int = 10_000) -> int:
    """Forget up to `most` requests older than KEPT_H hours; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(PRUNE, {"most": most, "hours": KEPT_H})
        return int(cursor.rowcount)


TAKE = """
    INSERT INTO outreach_agentrequest AS asked (agent_id, key, digest, asked_at)
    VALUES (%(agent)s, %(key)s, %(digest)s, clock_timestamp())
    ON CONFLICT (agent_id, key) DO UPDATE SET asked_at = excluded.asked_at
     WHERE asked.code IS NULL AND asked.digest = excluded.digest
       AND asked.asked_at < clock_timestamp() - make_interval(secs => %(stale)s)
    RETURNING id
"""
PRUNE = """
    DELETE FROM outreach_agentrequest WHERE id = ANY (ARRAY(
        SELECT id FROM outreach_agentrequest WHERE asked_at < clock_timestamp() - make_interval(hours => %(hours)s)
         ORDER BY asked_at LIMIT %(most)s FOR UPDATE SKIP LOCKED))
"""
