"""What one client does again and again: our intake, the peer's, and the bare turn."""

import itertools
import json
import uuid
from collections.abc import Callable
from typing import Any

from django.db import connection, transaction

from crmsync.nudge import nudge
from routing.events import record
from routing.intake import accept
from routing.leads import enter
from routing.models import InboundSource
from routing.normalise import clean_lead
from routing.placing import place


def payload() -> dict[str, Any]:
    name = uuid.uuid4().hex
    return {
        "email": f"{name}@acme-{name[:4]}.example",
        "first_name": "Pat",
        "last_name": "Novák",
        "company": "Acme",
        "country": "FR",
        "message": "Please call me about fifty seats.",
        "utm": {"source": "newsletter", "campaign": "autumn"},
    }


def ours(*, number: int, source_ids: list[int]) -> Callable[[], str]:
    """Rota's intake: lead committed as waiting, then its turn under the team's turnstile."""
    slugs = itertools.cycle(_slugs(number, source_ids))
    return lambda: accept_one(next(slugs))


def accept_one(slug: str) -> str:
    """What the webhook does with a request, but for HTTP and the signature."""
    source = InboundSource.objects.with_book().get(slug=slug)
    lead = payload()
    body = json.dumps(lead).encode()
    return accept(source=source, event_id=uuid.uuid4().hex, body=body, payload=lead, request_id="bench").outcome


def peer(*, number: int, source_ids: list[int]) -> Callable[[], str]:
    """The same intake in Python, and a random rep in the same transaction: no turnstile, no lag, no fairness."""
    slugs = itertools.cycle(_slugs(number, source_ids))

    def work() -> str:
        source = InboundSource.objects.with_book().get(slug=next(slugs))
        said = payload()
        body = json.dumps(said).encode()
        lead = clean_lead(said)
        placing = place(lead=lead, source=source)
        with transaction.atomic(durable=True):
            recorded = record(
                source_id=source.pk, event_id=uuid.uuid4().hex, body=body, payload=said, request_id="bench"
            )
            entered = enter(lead=lead, event=recorded.event, placing=placing)
            with connection.cursor() as cursor:
                cursor.execute(GIVE_TO_ANYBODY, {"lead": entered.lead, "team": entered.team_id})
                cursor.fetchone()
        nudge("crm")
        return "assigned"

    return work


# The turn number comes from a sequence; the roster is one the bench has made.
GIVE_TO_ANYBODY = """
    WITH anybody AS (
        SELECT m.id, r.id AS rep_id, r.name, r.crm_user_id
          FROM routing_membership m JOIN routing_rep r ON r.id = m.rep_id
         WHERE m.team_id = %(team)s AND m.active ORDER BY random() LIMIT 1),
    assigned AS (
        UPDATE routing_lead SET status = 'assigned', first_assigned_at = clock_timestamp() WHERE id = %(lead)s),
    given AS (
        INSERT INTO routing_assignment (lead_id, membership_id, team_id, turn, roster_id, lag_before, lag_after,
                                        assigned_at)
             SELECT %(lead)s, anybody.id, %(team)s, nextval('bench_turn'), bench_roster.id, 0, 0, clock_timestamp()
               FROM anybody, routing_roster bench_roster
              WHERE bench_roster.team_id = %(team)s AND bench_roster.digest = 'bench')
    SELECT anybody.rep_id, anybody.name, told.message_id
      FROM anybody, routing_lead lead,
           LATERAL outbox_enqueue('Lead', ARRAY[lead.uid::text], ARRAY[lead_fields(lead, anybody.crm_user_id, '')]) told
     WHERE lead.id = %(lead)s
"""


def bare(*, number: int, source_ids: list[int]) -> Callable[[], str]:
    """The turn alone: a lead inserted in one statement without event and address, then take_turns, in plain psycopg."""
    team_of = dict(InboundSource.objects.values_list("slug", "team_id"))
    teams = itertools.cycle([team_of[slug] for slug in _slugs(number, source_ids)])
    cursor = connection.connection.cursor()

    def work() -> str:
        team = next(teams)
        cursor.execute("INSERT INTO routing_lead (team_id, email) VALUES (%s, 'pat@acme.example') RETURNING id", [team])
        (lead,) = cursor.fetchone()
        cursor.execute("SELECT outcome FROM take_turns(%s, %s)", [team, lead])
        return str(cursor.fetchone()[0])

    return work


def _slugs(number: int, source_ids: list[int]) -> list[str]:
    """All of them, each client beginning with another."""
    slugs = list(InboundSource.objects.filter(pk__in=source_ids).order_by("pk").values_list("slug", flat=True))
    start = number % len(slugs)
    return slugs[start:] + slugs[:start]
