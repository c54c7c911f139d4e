"""Mails to send, made by the set: a launched campaign for the rounds, and millions of rows that a claim passes over."""

import statistics
import time
from datetime import timedelta
from typing import Any

from django.db import connection, transaction

from outreach.models import Campaign, Message, Step
from outreach.moves import campaigns
from outreach.moves.campaigns import Person
from outreach.moves.claims import claim_batch
from routing.models import Lead, Team

STEPS = 40
CLAIMS = 200


def launched(count: int, *, name: str) -> Campaign:
    """A running campaign with so many due messages, to addresses of its own."""
    team = Team.objects.create(name=name)
    leads = Lead.objects.bulk_create(Lead(team=team, email=f"{name}-{n}@acme.example") for n in range(count))
    campaign = Campaign.objects.create(name=name, from_address="pat@rota.example")
    step = Step.objects.create(campaign=campaign, order=1, delay=timedelta(0), subject=name, body=name)
    with transaction.atomic():
        campaigns.launch(
            campaign_id=campaign.pk,
            people=[Person(lead.pk, lead.email, lead.email) for lead in leads],
            by="bench",
            audience_digest=name,
            content_digest=name,
            step_digests={step.pk: name},
        )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return campaign


def claims_in_a_large_table(rows: int) -> dict[str, Any]:
    """How long a claim of 50 takes among so many messages, of which one in twenty is due; claimed, not sent."""
    people = rows // STEPS
    campaign = launched(people, name="large")
    began = time.perf_counter()
    with connection.cursor() as cursor, transaction.atomic():
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        if cursor.fetchone()[0]:
            cursor.execute(
                "SET LOCAL session_replication_role = replica"
            )  # foreign keys unchecked: three times as fast
        cursor.execute(MORE_STEPS, {"campaign": campaign.pk, "steps": STEPS})
        cursor.execute(MORE_MESSAGES, {"campaign": campaign.pk})
    with connection.cursor() as cursor:
        for statement in ("SET statement_timeout = 0", "VACUUM ANALYZE outreach_message", "RESET statement_timeout"):
            cursor.execute(statement)
    made_s = time.perf_counter() - began
    times = []
    for _ in range(CLAIMS):
        began = time.perf_counter()
        held = claim_batch(campaign_id=campaign.pk, worker="bench", size=50, lease_s=1_800)
        times.append(1_000 * (time.perf_counter() - began))
        if held is None:
            break
    times.sort()
    return {
        "rows": Message.objects.filter(campaign=campaign).count(),
        "due_at_start": people * STEPS // 20,
        "claims": len(times),
        "p50_ms": round(statistics.median(times), 1),
        "p95_ms": round(times[int(len(times) * 0.95)], 1),
        "made_in_s": round(made_s, 1),
    }


MORE_STEPS = """
    INSERT INTO outreach_step (campaign_id, "order", delay, subject, body, digest)
    SELECT %(campaign)s, n, '0', 'n', 'n', n FROM generate_series(2, %(steps)s) AS n
"""
# The messages of the first two of forty steps are due: one in twenty.
MORE_MESSAGES = """
    INSERT INTO outreach_message (campaign_id, enrolment_id, step_id, recipient_id, status, due_at, sent_at)
    SELECT %(campaign)s, enrolment.id, step.id, enrolment.recipient_id,
           CASE WHEN step."order" = 2 THEN 'due' ELSE 'sent' END, now() - make_interval(secs => random() * 1000),
           CASE WHEN step."order" = 2 THEN NULL ELSE now() END
      FROM outreach_step step, outreach_enrolment enrolment
     WHERE step.campaign_id = %(campaign)s AND step."order" > 1 AND enrolment.campaign_id = %(campaign)s
"""
