"""What other campaigns have sent to the people of a list, as the gate will see it: asked for all of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection


@dataclass(frozen=True)
class Before:
    """What other campaigns did to one address. `first` and `next`: the campaign that sent what the first or a later
    step says, or nothing. `soon`: one that is going to. `quiet`: the quiet period lasts longer than the first delay.
    """

    first: str = ""
    next: str = ""
    soon: str = ""
    quiet: bool = False


NOTHING = Before()


def sent_before(*, campaign_id: int, digests: Sequence[str], keys: Sequence[str]) -> dict[str, Before]:
    """By key, those of the people to whom another campaign sent something that bears on this one, whose steps have
    these digests. One statement, whatever the number of people.
    """
    if not keys or not digests:
        return {}
    first, *later = digests
    values: dict[str, Any] = {"campaign": campaign_id, "first": first, "later": later, "digests": list(digests)}
    values |= {"keys": list(keys), "quiet": settings.QUIET_PERIOD_H}
    with connection.cursor() as cursor:
        cursor.execute(SENT_BEFORE, values)
        return {key: Before(*found) for key, *found in cursor.fetchall()}


SENT_BEFORE = """
    WITH person AS MATERIALIZED (
        SELECT recipient.id, recipient.key FROM unnest(%(keys)s::text[]) AS given(key)
          JOIN outreach_recipient recipient ON recipient.key = given.key),
    start AS MATERIALIZED (
        SELECT greatest(campaign.starts_at, statement_timestamp()) + step.delay AS at
          FROM outreach_campaign campaign JOIN outreach_step step ON step.campaign_id = campaign.id
         WHERE campaign.id = %(campaign)s ORDER BY step."order" LIMIT 1),
    mail AS (
        SELECT person.id, earlier.begun_at, earlier.step_id
          FROM person JOIN outreach_sendattempt earlier ON earlier.recipient_id = person.id
         WHERE earlier.status IN ('begun', 'accepted', 'in_doubt')
         UNION ALL
        SELECT person.id, NULL, message.step_id
          FROM person JOIN outreach_message message ON message.recipient_id = person.id
         WHERE message.status IN ('due', 'claimed')),
    seen AS (
        SELECT mail.id, begun_at, other.name,
               begun_at IS NOT NULL AND step.digest = %(first)s AS is_first,
               begun_at IS NOT NULL AND step.digest = ANY(%(later)s::text[]) AS is_later,
               begun_at IS NULL AND step.digest = ANY(%(digests)s::text[]) AS is_soon
          FROM mail JOIN outreach_step step ON step.id = mail.step_id
          JOIN outreach_campaign other ON other.id = step.campaign_id
         WHERE other.id <> %(campaign)s),
    found AS (
        SELECT id, coalesce(max(name) FILTER (WHERE is_first), '') AS first,
               coalesce(max(name) FILTER (WHERE is_later), '') AS next,
               coalesce(max(name) FILTER (WHERE is_soon), '') AS soon,
               coalesce(max(begun_at) + make_interval(hours => %(quiet)s) > (SELECT at FROM start), false) AS quiet
          FROM seen GROUP BY id)
    SELECT person.key, first, next, soon, quiet FROM found JOIN person ON person.id = found.id
     WHERE quiet OR first <> '' OR next <> '' OR soon <> ''
"""
