"""Let an agent in by its token and within its rate; make its token, shown once, and revoke it."""

import hashlib
import math
import secrets
from typing import Any

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
    all processes together keep the rate; the row's lock makes requests of one agent take turns for the moment of one
    UPDATE. To lock the row first and update it in the same statement would not do: the update begins at the version
    that the statement saw, where those who wait for our lock stand in our way.

    Raises TokenRefused for a token that is unknown or revoked, RateReached with the seconds to wait.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        values: dict[str, Any] = {"digest": digest_of(token), "rate": settings.AGENT_RATE_PER_MIN}
        cursor.execute(CHARGE, values)
        charged = cursor.fetchone()
        if charged is None:
            cursor.execute(WAIT, values)
            known = cursor.fetchone()
            if known is None:
                raise TokenRefused
            raise RateReached(retry_after_s=max(1, math.ceil(known[0])))
    return Agent.objects.get(pk=charged[0])


def digest_of(token: str) -> str:
    """What is kept of a token. It is random and long, so a plain hash of it cannot be turned back."""
    return hashlib.sha256(token.encode()).hexdigest()


HAS = """least(%(rate)s, allowance + %(rate)s / 60.0 * coalesce(
             extract(epoch FROM clock_timestamp() - asked_at), 60))::float8"""
CHARGE = f"""
    UPDATE outreach_agent SET allowance = {HAS} - 1, asked_at = clock_timestamp()
     WHERE digest = %(digest)s AND revoked_at IS NULL AND {HAS} >= 1 RETURNING id
"""
WAIT = f"""
    SELECT (1 - {HAS}) * 60.0 / %(rate)s FROM outreach_agent WHERE digest = %(digest)s AND revoked_at IS NULL
"""
