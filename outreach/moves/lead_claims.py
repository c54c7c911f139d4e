"""Claim leads for a job, keep them, pass the gate, say what was done, give back: disjoint work without mail.

The lead itself is not locked: the turns pass over locked leads, and whose turn it is must not depend on this.
"""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from outreach.errors import ClaimLost, GateClosed
from outreach.models import LeadClaim, LeadHold, LeadJob, Recipient
from outreach.moves.events import Kind, Layer, tell


@dataclass(frozen=True)
class HeldLeads:
    """What a worker holds: its claim's token, until when, and the ids of the leads, the oldest first."""

    token: uuid.UUID
    lease_until: dt.datetime | None
    leads: tuple[int, ...]


def claim_leads(
    *,
    job: str,
    worker: str,
    size: int,
    lease_s: float,
    statuses: Sequence[str],
    team_id: int | None = None,
    source_id: int | None = None,
    since: dt.datetime | None = None,
) -> HeldLeads:
    """Claim up to `size` leads of a filter that nobody holds or did for this job, for `lease_s` seconds.

    Opens a transaction. The lock on the job proves that no other claim for it is between its look and its insert; it
    costs that one the milliseconds of this statement. Expired claims of the job are ended first, so that the leads of
    a dead worker come back with its lease and wait for no reaper.
    """
    token = uuid.uuid4()
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        LeadJob.objects.bulk_create([LeadJob(name=job)], ignore_conflicts=True)
        job_id = LeadJob.objects.select_for_update(no_key=True).values_list("pk", flat=True).get(name=job)
        cursor.execute(EXPIRE, {"job": job_id, "most": 1_000})
        values: dict[str, Any] = {"job": job_id, "worker": worker, "size": size, "lease": lease_s, "token": token}
        values |= {"team": team_id, "source": source_id, "since": since, "statuses": list(statuses)}
        cursor.execute(CLAIM, values)
        lease_until, leads = cursor.fetchone()
    return HeldLeads(token, lease_until, tuple(leads or ()))


def renew_leads(*, token: uuid.UUID, worker: str, lease_s: float) -> dt.datetime:
    """Extend a claim that is still ours by the database's clock, and say until when. Raises ClaimLost."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(RENEW, {"token": token, "lease": lease_s, "worker": worker})
        row = cursor.fetchone()
        if row is None:
            _turned_away(worker, Layer.CLAIM, "a claim on leads renewed too late")
    if row is None:
        raise ClaimLost
    until: dt.datetime = row[0]
    return until


def begin_lead(*, token: uuid.UUID, lead_id: int, worker: str, address_key: str) -> None:
    """Pass the gate for one held lead: from now on it may have been acted upon. Opens a transaction.

    Locks the hold and the address's row, like the gate for mail, and looks in the next statement: a suppression that
    was committed before is seen. Raises GateClosed with the reason.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(LOCK, {"token": token, "lead": lead_id, "worker": worker})
        list(Recipient.objects.select_for_update(no_key=True).filter(key=address_key).values_list("pk"))
        cursor.execute(BEGIN, {"token": token, "lead": lead_id, "worker": worker, "key": address_key})
        (reason,) = cursor.fetchone()
        if reason:
            layer = Layer.GATE if reason == "the address wants no mail" else Layer.CLAIM
            _turned_away(worker, layer, f"lead {lead_id}: {reason}")
    if reason:
        raise GateClosed(reason)


def settle_leads(*, token: uuid.UUID, worker: str, results: Sequence[tuple[int, str, str]]) -> dict[int, str]:
    """Say what became of leads of a claim (lead, status, note); return the status of each that was ours to settle.

    Opens a transaction. What the lease took from the worker before it began is not its to settle any more; what it had
    begun still is, in doubt: the report comes late and is taken as evidence. Ends the claim with its last lead.
    """
    values: dict[str, Any] = {"token": token, "worker": worker}
    values["leads"] = [lead for lead, _, _ in results]
    values["statuses"] = [status for _, status, _ in results]
    values["notes"] = [note[:500] for _, _, note in results]
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        claim = LeadClaim.objects.select_for_update(no_key=True).filter(token=token, worker=worker).first()
        if claim is None:
            raise ClaimLost
        cursor.execute(SETTLE, {**values, "claim": claim.pk})
        settled = dict(cursor.fetchall())
        cursor.execute(END, {"claim": claim.pk, "end": LeadClaim.EndReason.DONE.value})
        for lead in sorted({lead for lead, _, _ in results} - set(settled)):
            _turned_away(worker, Layer.CLAIM, f"lead {lead}: settled without holding it")
    return settled


def release_leads(*, token: uuid.UUID, worker: str) -> int:
    """Give back what is held and not begun, and return how many that were. Opens a transaction."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        claim = LeadClaim.objects.select_for_update(no_key=True).filter(token=token, worker=worker).first()
        if claim is None or claim.ended_at is not None:
            return 0
        cursor.execute(GIVE_BACK, {"claim": claim.pk})
        released = int(cursor.rowcount)
        end = LeadClaim.EndReason.RELEASED if released else LeadClaim.EndReason.DONE
        cursor.execute(END, {"claim": claim.pk, "end": end.value})
    return released


def expire_leads(*, most: int = 1_000) -> tuple[int, int]:
    """End expired claims of all jobs: how many leads can be claimed again, how many are in doubt. Opens a transaction.

    Whoever loses the lock on a claim skips it: a renewal, a settlement or another run has it at this moment.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(EXPIRE, {"job": None, "most": most})
        free, in_doubt = cursor.fetchone()
    return int(free), int(in_doubt)


def decide_holds(*, hold_ids: Sequence[int], done: bool, by: str, note: str) -> int:
    """A person says of leads in doubt: they were done, or were not and can be claimed again. Opens a transaction."""
    after = LeadHold.Status.DONE if done else LeadHold.Status.RELEASED
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(DECIDE, {"ids": list(hold_ids), "after": after.value, "by": by, "note": note[:500]})
        return int(cursor.rowcount)


def _turned_away(worker: str, layer: Layer, reason: str) -> None:
    tell(kind=Kind.TURNED_AWAY, layer=layer, worker=worker, reason=reason)


CLAIM = """
    WITH taken AS MATERIALIZED (
        SELECT lead.id FROM routing_lead lead
         WHERE lead.status = ANY (%(statuses)s) AND lead.team_id = coalesce(%(team)s, lead.team_id)
           AND lead.created_at >= coalesce(%(since)s, lead.created_at)
           AND (%(source)s::bigint IS NULL OR EXISTS (
                SELECT FROM routing_inboundevent event WHERE event.lead_id = lead.id AND event.source_id = %(source)s))
           AND NOT EXISTS (
                SELECT FROM outreach_leadhold hold
                 WHERE hold.job_id = %(job)s AND hold.lead_id = lead.id
                   AND hold.status IN ('held', 'begun', 'done', 'failed', 'in_doubt'))
         ORDER BY lead.id LIMIT %(size)s),
    made AS (
        INSERT INTO outreach_leadclaim (token, job_id, worker, size, claimed_at, heartbeat_at, lease_until)
        SELECT %(token)s, %(job)s, %(worker)s, taken.n, t, t, t + make_interval(secs => %(lease)s)
          FROM clock_timestamp() AS t, (SELECT count(*) AS n FROM taken) AS taken WHERE taken.n > 0
        RETURNING id, lease_until),
    held AS (
        INSERT INTO outreach_leadhold (claim_id, job_id, lead_id)
        SELECT made.id, %(job)s, taken.id FROM made, taken
        RETURNING lead_id)
    SELECT (SELECT lease_until FROM made), array_agg(lead_id ORDER BY lead_id) FROM held
"""

RENEW = """
    UPDATE outreach_leadclaim
       SET heartbeat_at = clock_timestamp(), lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
     WHERE token = %(token)s AND worker = %(worker)s AND ended_at IS NULL AND lease_until > clock_timestamp()
    RETURNING lease_until
"""

LOCK = """
    WITH held AS MATERIALIZED (
        SELECT id FROM outreach_leadclaim WHERE token = %(token)s AND worker = %(worker)s FOR NO KEY UPDATE)
    SELECT id FROM outreach_leadhold
     WHERE claim_id = (SELECT id FROM held) AND lead_id = %(lead)s FOR NO KEY UPDATE
"""

BEGIN = """
    WITH seen AS (
        SELECT hold.id,
               CASE WHEN hold.status = 'begun' THEN 'it has begun before'
                    WHEN hold.status <> 'held' OR claim.ended_at IS NOT NULL THEN 'the claim is lost'
                    WHEN claim.lease_until <= clock_timestamp() THEN 'the lease has run out'
                    WHEN EXISTS (SELECT FROM outreach_suppression stop
                                   JOIN outreach_recipient recipient ON recipient.id = stop.recipient_id
                                  WHERE recipient.key = %(key)s AND stop.lifted_at IS NULL)
                    THEN 'the address wants no mail' END AS reason
          FROM outreach_leadhold hold JOIN outreach_leadclaim claim ON claim.id = hold.claim_id
         WHERE claim.token = %(token)s AND claim.worker = %(worker)s AND hold.lead_id = %(lead)s),
    begun AS (
        UPDATE outreach_leadhold SET status = 'begun', begun_at = clock_timestamp() FROM seen
         WHERE outreach_leadhold.id = seen.id AND seen.reason IS NULL AND outreach_leadhold.status = 'held'
        RETURNING outreach_leadhold.id)
    SELECT CASE WHEN EXISTS (SELECT FROM begun) THEN ''
                ELSE coalesce((SELECT reason FROM seen), 'the claim is lost') END
"""

SETTLE = """
    WITH said AS (
        SELECT DISTINCT ON (lead) lead, status, note
          FROM unnest(%(leads)s::bigint[], %(statuses)s::text[], %(notes)s::text[]) WITH ORDINALITY
               AS result(lead, status, note, place) ORDER BY lead, place DESC),
    settled AS (
        UPDATE outreach_leadhold hold
           SET status = said.status, note = said.note, settled_by = %(worker)s,
               begun_at = CASE WHEN said.status = 'in_doubt' THEN coalesce(begun_at, clock_timestamp())
                               ELSE begun_at END,
               settled_at = CASE WHEN said.status <> 'in_doubt' THEN clock_timestamp() END
          FROM said
         WHERE hold.claim_id = %(claim)s AND hold.lead_id = said.lead AND hold.status IN ('held', 'begun', 'in_doubt')
        RETURNING hold.lead_id, hold.status)
    SELECT lead_id, status FROM settled
"""

GIVE_BACK = """
    UPDATE outreach_leadhold SET status = 'released', settled_at = clock_timestamp()
     WHERE claim_id = %(claim)s AND status = 'held'
"""

END = """
    UPDATE outreach_leadclaim SET ended_at = clock_timestamp(), end_reason = %(end)s
     WHERE id = %(claim)s AND ended_at IS NULL
       AND NOT EXISTS (SELECT FROM outreach_leadhold
                        WHERE claim_id = %(claim)s AND status IN ('held', 'begun'))
"""

EXPIRE = """
    WITH dead AS MATERIALIZED (
        SELECT id FROM outreach_leadclaim
         WHERE ended_at IS NULL AND lease_until < clock_timestamp() AND job_id = coalesce(%(job)s, job_id)
         ORDER BY lease_until LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED),
    freed AS (
        UPDATE outreach_leadhold hold
           SET status = CASE hold.status WHEN 'held' THEN 'expired' ELSE 'in_doubt' END,
               settled_at = CASE hold.status WHEN 'held' THEN clock_timestamp() END
          FROM dead WHERE hold.claim_id = dead.id AND hold.status IN ('held', 'begun')
        RETURNING hold.status),
    over AS (
        UPDATE outreach_leadclaim SET ended_at = clock_timestamp(), end_reason = 'expired' FROM dead
         WHERE outreach_leadclaim.id = dead.id)
    SELECT count(*) FILTER (WHERE status = 'expired'), count(*) FILTER (WHERE status = 'in_doubt') FROM freed
"""

DECIDE = """
    UPDATE outreach_leadhold
       SET status = %(after)s, settled_at = clock_timestamp(), settled_by = %(by)s, note = %(note)s
     WHERE id = ANY (%(ids)s) AND status = 'in_doubt'
"""
