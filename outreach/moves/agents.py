"""Let an agent in by its token and within its rate; make its token, shown once, and revoke it."""

import hashlib
import math
import secrets

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from outreach.errors import RateReached, TokenRefused
from outreach.models import Agent

PREFIX = "rota_"
HINT_LENGTH = 10


def make_agent(*, name: str, may_mail: bool, may_leads: bool, by: str) -> tuple[Agent, str]:
    """A new agent and its token, which nobody can read again later. Call inside a transaction."""
    token = PREFIX + secrets.token_urlsafe(32)
    agent = Agent.objects.create(
        name=name,
        digest=digest_of(token),
        hint=token[:HINT_LENGTH],
        may_mail=may_mail,
        may_leads=may_leads,
        made_by=by,
        allowance=settings.AGENT_RATE_PER_MIN,
    )
    return agent, token


def revoke(*, agent_ids: list[int], by: str) -> int:
    """Let these agents in no more, from their next request on; return how many still were let in.

    What they hold runs out with its lease.
    """
    return Agent.objects.active().filter(pk__in=agent_ids).update(revoked_at=Now(), revoked_by=by)


def admit(*, token: str) -> Agent:
    """The agent with this token, charged for one request. Opens a transaction.

    Each agent has a bucket of AGENT_RATE_PER_MIN requests that fills up evenly within a minute. It is a row, so that
    all processes together keep the rate; the row's lock makes requests of one agent take turns for the moment of this
    statement. Raises TokenRefused for a token that is unknown or revoked, RateReached with the seconds to wait.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(CHARGE, {"digest": digest_of(token), "rate": settings.AGENT_RATE_PER_MIN})
        row = cursor.fetchone()
    if row is None:
        raise TokenRefused
    agent_id, let_in, wait_s = row
    if not let_in:
        raise RateReached(retry_after_s=max(1, math.ceil(wait_s)))
    return Agent.objects.get(pk=agent_id)


def digest_of(token: str) -> str:
    """What is kept of a token. It is random and long, so a plain hash of it cannot be turned back."""
    return hashlib.sha256(token.encode()).hexdigest()


CHARGE = """
    WITH found AS MATERIALIZED (
        SELECT id, least(%(rate)s, allowance + %(rate)s / 60.0 * coalesce(
                   extract(epoch FROM clock_timestamp() - asked_at), 60))::float8 AS has
          FROM outreach_agent WHERE digest = %(digest)s AND revoked_at IS NULL FOR NO KEY UPDATE),
    charged AS (
        UPDATE outreach_agent SET allowance = found.has - 1, asked_at = clock_timestamp()
          FROM found WHERE outreach_agent.id = found.id AND found.has >= 1
        RETURNING outreach_agent.id)
    SELECT found.id, EXISTS (SELECT FROM charged), (1 - found.has) * 60.0 / %(rate)s FROM found
"""
