"""The gate: the last moment at which a mail can be stopped, and the row that says it may have gone out.

It holds alone. With the job lock and the claims switched off, the lock on the message, the check that follows it and
the partial unique index on intents still let one try through for a step and address.
"""

import datetime as dt
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction

from outreach.moves.events import Kind, Layer, tell

STOP_THE_SENDER = frozenset({"sending is off", "campaign is not running"})


@dataclass(frozen=True)
class Begun:
    """The intent is committed: hand the mail over, once, and settle this attempt."""

    attempt: int


@dataclass(frozen=True)
class Refused:
    """The mail must not leave. `stop`: nor may any other of this batch."""

    reason: str
    stop: bool = False


class Facts(NamedTuple):
    """What the database says about a message at the gate. Times are the database's."""

    status: str
    claim: int | None
    campaign: int
    ours: bool
    lease_runs: bool
    sending_on: bool
    running: bool
    enrolled: bool
    suppressed: bool
    already: bool
    same_content: bool
    quiet_until: dt.datetime | None
    opens_at: dt.datetime | None
    pace: int | None
    day: dt.date
    tomorrow: dt.datetime


class Verdict(NamedTuple):
    """Why a message is stopped, and what becomes of it: `after` is its new status, None where it is not ours to say."""

    reason: str
    after: str | None
    due_at: dt.datetime | None = None


def begin(*, token: uuid.UUID, message_id: int, worker: str, mail_id: str, digest: str) -> Begun | Refused:
    """Commit the intent to send a claimed message, or say why it must not leave. Opens a transaction.

    Locks claim, message and recipient, in this order. The locks prove that no reaper, no other gate and no suppression
    of this address is between its check and its commit; they cost such a one a few milliseconds. The facts are read in
    the next statement, for a statement's snapshot is older than the locks it waited for. The commit is synchronous,
    whatever the server's default: a crash must not forget the intent.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(LOCK, {"token": token, "message": message_id})
        cursor.execute(FACTS, {"token": token, "message": message_id, "quiet": settings.QUIET_PERIOD_H})
        row = cursor.fetchone()
        if row is None:
            return Refused("no such message", stop=True)
        facts = Facts(*row)
        verdict = judge(facts)
        if verdict is None and facts.pace is not None:
            cursor.execute(COUNT, {"campaign": facts.campaign, "day": facts.day, "pace": facts.pace})
            if cursor.fetchone() is None:
                verdict = Verdict("the day's pace is reached", "due", facts.tomorrow)
        if verdict is None:
            values: dict[str, Any] = {"message": message_id, "claim": facts.claim, "worker": worker}
            values |= {"mail_id": mail_id, "digest": digest}
            cursor.execute(BEGIN, values)
            (attempt,) = cursor.fetchone()
            if attempt is not None:
                return Begun(attempt)
            verdict = Verdict("a try of this step to this address may have gone out", "cancelled")
        if verdict.after is None:
            after = facts.status
        else:
            after = verdict.after
            cursor.execute(
                STOP,
                {"message": message_id, "after": after, "due_at": verdict.due_at, "reason": short(verdict)},
            )
        tell(
            kind=Kind.TURNED_AWAY,
            layer=Layer.GATE if facts.ours else Layer.CLAIM,
            worker=worker,
            message=message_id,
            claim=facts.claim,
            before=facts.status,
            after=after,
            reason=verdict.reason,
        )
    return Refused(verdict.reason, stop=verdict.reason in STOP_THE_SENDER or not facts.ours)


def judge(facts: Facts) -> Verdict | None:
    """Return why the message must not leave now, the gravest reason first; None where it may (but for the pace)."""
    if facts.status != "claimed" or not facts.ours:
        return Verdict("the claim is lost", None)
    if not facts.lease_runs:
        return Verdict("the lease has run out", None)
    if not facts.sending_on:
        return Verdict("sending is off", "due")
    if not facts.running:
        return Verdict("campaign is not running", "due")
    if facts.suppressed:
        return Verdict("the address wants no mail", "suppressed")
    if not facts.enrolled:
        return Verdict("the sequence was stopped", "cancelled")
    if facts.already:
        return Verdict("a try of this step to this address may have gone out", "cancelled")
    if facts.same_content:
        return Verdict("another campaign sent the same content", "cancelled")
    if facts.quiet_until is not None:
        return Verdict("quiet period", "due", facts.quiet_until)
    if facts.opens_at is not None:
        return Verdict("outside the sending window", "due", facts.opens_at)
    return None


def short(verdict: Verdict) -> str:
    """The reason as a message keeps it: only where it is given up."""
    return verdict.reason[:40] if verdict.after in ("suppressed", "cancelled") else ""


LOCK = """
    WITH held AS MATERIALIZED (
        SELECT id FROM outreach_claim WHERE token = %(token)s FOR NO KEY UPDATE),
    mail AS MATERIALIZED (
        SELECT recipient_id FROM outreach_message
         WHERE id = %(message)s AND (SELECT count(*) FROM held) >= 0 FOR NO KEY UPDATE),
    person AS MATERIALIZED (
        SELECT id FROM outreach_recipient WHERE id = (SELECT recipient_id FROM mail) FOR NO KEY UPDATE)
    SELECT id, set_config('synchronous_commit', 'on', true) FROM person
"""

# `opens_at`: the next opening of the campaign's window, null inside it. Quiet periods are those of other campaigns; a
# campaign's own steps keep their own delays. `same_content` is about steps, so a slightly longer list does not help.
FACTS = """
    SELECT message.status, message.claim_id, message.campaign_id,
           coalesce(claim.id = message.claim_id AND claim.ended_at IS NULL, false),
           coalesce(claim.lease_until > clock.t, false),
           EXISTS (SELECT FROM outreach_sendingstate
                    WHERE epoch <> '' AND (off_because = '' OR off_until <= clock.t)),
           campaign.status = 'running',
           enrolment.ended_at IS NULL,
           EXISTS (SELECT FROM outreach_suppression
                    WHERE recipient_id = message.recipient_id AND lifted_at IS NULL),
           coalesce(bool_or(earlier.step_id = message.step_id), false),
           coalesce(bool_or(other.digest = step.digest AND other.campaign_id <> campaign.id), false)
               AND campaign.override_reason = '',
           nullif(greatest(max(earlier.begun_at) FILTER (WHERE other.campaign_id <> campaign.id)
                           + make_interval(hours => %(quiet)s), clock.t), clock.t),
           CASE WHEN local.t::time < campaign.window_from
                THEN (local.t::date + campaign.window_from) AT TIME ZONE campaign.zone
                WHEN local.t::time >= campaign.window_until
                THEN (local.t::date + 1 + campaign.window_from) AT TIME ZONE campaign.zone END,
           campaign.daily_pace, local.t::date,
           (local.t::date + 1 + coalesce(campaign.window_from, '00:00')) AT TIME ZONE campaign.zone
      FROM outreach_message message
      JOIN outreach_campaign campaign ON campaign.id = message.campaign_id
      JOIN outreach_step step ON step.id = message.step_id
      JOIN outreach_enrolment enrolment ON enrolment.id = message.enrolment_id
      CROSS JOIN LATERAL (SELECT clock_timestamp() AS t) clock
      CROSS JOIN LATERAL (SELECT clock.t AT TIME ZONE campaign.zone AS t) local
      LEFT JOIN outreach_claim claim ON claim.token = %(token)s
      LEFT JOIN outreach_sendattempt earlier
             ON earlier.recipient_id = message.recipient_id AND earlier.status IN ('begun', 'accepted', 'in_doubt')
      LEFT JOIN outreach_step other ON other.id = earlier.step_id
     WHERE message.id = %(message)s
     GROUP BY message.id, campaign.id, step.id, enrolment.id, claim.id, clock.t, local.t
"""

# Guarded counter. The lock on the day's row makes gates of a paced campaign take turns for the rest of the transaction.
COUNT = """
    INSERT INTO outreach_campaignday AS counted (campaign_id, day, begun)
    SELECT %(campaign)s, %(day)s, 1 WHERE %(pace)s > 0
    ON CONFLICT (campaign_id, day) DO UPDATE SET begun = counted.begun + 1 WHERE counted.begun < %(pace)s
    RETURNING begun
"""

# The lease is renewed, for as long as it was given, where less than half of it is left: it covers the hand-over that
# follows.
BEGIN = """
    WITH intent AS (
        INSERT INTO outreach_sendattempt
            (message_id, step_id, recipient_id, claim_id, number, worker, mail_id, digest, begun_at)
        SELECT id, step_id, recipient_id, claim_id,
               (SELECT count(*) + 1 FROM outreach_sendattempt WHERE message_id = %(message)s),
               %(worker)s, %(mail_id)s, %(digest)s, clock_timestamp()
          FROM outreach_message WHERE id = %(message)s
        ON CONFLICT (step_id, recipient_id) WHERE status IN ('begun', 'accepted', 'in_doubt') DO NOTHING
        RETURNING id),
    begun AS (
        UPDATE outreach_message SET status = 'begun' FROM intent WHERE outreach_message.id = %(message)s),
    beat AS (
        UPDATE outreach_claim SET heartbeat_at = clock_timestamp(),
               lease_until = clock_timestamp() + (lease_until - heartbeat_at)
          FROM intent
         WHERE outreach_claim.id = %(claim)s AND lease_until < clock_timestamp() + (lease_until - heartbeat_at) / 2),
    told AS (
        INSERT INTO outreach_outreachevent (kind, layer, worker, message_id, claim_id, attempt_id, before, after)
        SELECT 'begun', 'gate', %(worker)s, %(message)s, %(claim)s, id, 'claimed', 'begun' FROM intent)
    SELECT (SELECT id FROM intent)
"""

STOP = """
    WITH stopped AS (
        UPDATE outreach_message
           SET status = %(after)s, claim_id = NULL, reason = %(reason)s,
               due_at = coalesce(%(due_at)s::timestamptz, due_at)
         WHERE id = %(message)s
        RETURNING enrolment_id)
    UPDATE outreach_enrolment
       SET ended_at = clock_timestamp(), end_reason = %(after)s
      FROM stopped
     WHERE outreach_enrolment.id = stopped.enrolment_id AND ended_at IS NULL
       AND %(after)s IN ('suppressed', 'cancelled')
"""
