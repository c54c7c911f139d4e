-- The gate (outreach/moves/gate.py) as one call, which is one transaction: whoever asks waits for one answer, and the
-- server keeps the plans, which take longer to make than to run.
--
-- Locks claim, message and recipient, in this order, looks in a statement of its own, whose snapshot is taken after the
-- locks were waited for, and writes down the intent or why there is none. Returns the try, or the reason and whether the
-- claim is the asker's. From its first line this transaction commits synchronously, whatever the server's default: a
-- crash must not forget the intent.
CREATE FUNCTION outreach_gate(
    p_token uuid, p_message bigint, p_quiet int, p_worker text, p_mail_id text, p_digest text,
    p_subject text,
    OUT o_attempt bigint, OUT o_reason text, OUT o_ours boolean
) LANGUAGE plpgsql VOLATILE
-- One plan for each statement, by index, whatever the statistics say: a plan that was made while the ledger was empty
-- would read all of it for every mail.
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_locked int;
    v_after text;
    facts record;
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    WITH held AS MATERIALIZED (
        SELECT id FROM outreach_claim WHERE token = p_token FOR NO KEY UPDATE),
    mail AS MATERIALIZED (
        SELECT recipient_id FROM outreach_message
         WHERE id = p_message AND (SELECT count(*) FROM held) >= 0 FOR NO KEY UPDATE),
    person AS MATERIALIZED (
        SELECT id FROM outreach_recipient WHERE id = (SELECT recipient_id FROM mail) FOR NO KEY UPDATE)
    SELECT count(*) INTO v_locked FROM person;

    -- The next opening of the campaign's window is null inside it; the window is of the lead's clock where the lead was
    -- enrolled with a zone, the day's pace always of the campaign's. Quiet periods are those of other campaigns; a
    -- campaign's own steps keep their own delays. The same content is asked about by step, so a longer list does not help.
    SELECT message.status, message.claim_id, message.campaign_id, message.step_id, message.recipient_id,
           coalesce(claim.id = message.claim_id AND claim.ended_at IS NULL, false) AS ours,
           coalesce(claim.lease_until > clock.t, false) AS lease_runs,
           EXISTS (SELECT FROM outreach_sendingstate
                    WHERE epoch <> '' AND (off_because = '' OR off_until <= clock.t)) AS sending_on,
           campaign.status = 'running' AS running,
           enrolment.ended_at IS NULL AS enrolled,
           EXISTS (SELECT FROM outreach_suppression
                    WHERE recipient_id = message.recipient_id AND lifted_at IS NULL) AS suppressed,
           coalesce(tries.this_step, false) AS already,
           coalesce(tries.this_content, false) AND campaign.override_reason = '' AS same_content,
           nullif(greatest(tries.last_of_others + make_interval(hours => p_quiet), clock.t), clock.t) AS quiet_until,
           CASE WHEN theirs.t::time < campaign.window_from
                THEN (theirs.t::date + campaign.window_from) AT TIME ZONE theirs.zone
                WHEN theirs.t::time >= campaign.window_until
                THEN (theirs.t::date + 1 + campaign.window_from) AT TIME ZONE theirs.zone END AS opens_at,
           CASE WHEN campaign.logs_activities THEN p_subject ELSE '' END AS subject, campaign.daily_pace AS pace, local.t::date AS day,
           (local.t::date + 1 + CASE WHEN enrolment.zone IS NULL THEN coalesce(campaign.window_from, '00:00')
                                     ELSE '00:00' END) AT TIME ZONE campaign.zone AS tomorrow
      INTO facts
      FROM outreach_message message
      JOIN outreach_campaign campaign ON campaign.id = message.campaign_id
      JOIN outreach_step step ON step.id = message.step_id
      JOIN outreach_enrolment enrolment ON enrolment.id = message.enrolment_id
      CROSS JOIN LATERAL (SELECT clock_timestamp() AS t) clock
      CROSS JOIN LATERAL (SELECT clock.t AT TIME ZONE campaign.zone AS t) local
      CROSS JOIN LATERAL (SELECT coalesce(enrolment.zone, campaign.zone) AS zone,
                                 clock.t AT TIME ZONE coalesce(enrolment.zone, campaign.zone) AS t) theirs
      LEFT JOIN outreach_claim claim ON claim.token = p_token
      CROSS JOIN LATERAL (
           SELECT bool_or(earlier.step_id = message.step_id) AS this_step,
                  bool_or(other.digest = step.digest AND other.campaign_id <> campaign.id) AS this_content,
                  max(earlier.begun_at) FILTER (WHERE other.campaign_id <> campaign.id) AS last_of_others
             FROM outreach_sendattempt earlier JOIN outreach_step other ON other.id = earlier.step_id
            WHERE earlier.recipient_id = message.recipient_id
              AND earlier.status IN ('begun', 'accepted', 'in_doubt')) tries
     WHERE message.id = p_message;
    IF NOT FOUND THEN
        o_reason := 'no such message';
        o_ours := false;
        RETURN;
    END IF;

    -- The gravest reason first.
    o_ours := facts.ours;
    o_reason := CASE
        WHEN facts.status <> 'claimed' OR NOT facts.ours THEN 'the claim is lost'
        WHEN NOT facts.lease_runs THEN 'the lease has run out'
        WHEN NOT facts.sending_on THEN 'sending is off'
        WHEN NOT facts.running THEN 'campaign is not running'
        WHEN facts.suppressed THEN 'the address wants no mail'
        WHEN NOT facts.enrolled THEN 'the sequence was stopped'
        WHEN facts.already THEN 'a try of this step to this address may have gone out'
        WHEN facts.same_content THEN 'another campaign sent the same content'
        WHEN facts.quiet_until IS NOT NULL THEN 'quiet period'
        WHEN facts.opens_at IS NOT NULL THEN 'outside the sending window' END;

    -- Guarded counter. The lock on the day's row makes gates of a paced campaign take turns for the rest of this call.
    IF o_reason IS NULL AND facts.pace IS NOT NULL THEN
        INSERT INTO outreach_campaignday AS counted (campaign_id, day, begun)
        SELECT facts.campaign_id, facts.day, 1 WHERE facts.pace > 0
        ON CONFLICT (campaign_id, day) DO UPDATE SET begun = counted.begun + 1 WHERE counted.begun < facts.pace;
        IF NOT FOUND THEN o_reason := 'the day''s pace is reached'; END IF;
    END IF;

    -- The lease is renewed, for as long as it was given, where less than half of it is left, so that it always covers
    -- the hand-over that follows.
    IF o_reason IS NULL THEN
        WITH intent AS (
            INSERT INTO outreach_sendattempt
                (message_id, step_id, recipient_id, claim_id, number, worker, mail_id, digest, subject, begun_at)
            SELECT p_message, facts.step_id, facts.recipient_id, facts.claim_id,
                   (SELECT count(*) + 1 FROM outreach_sendattempt WHERE message_id = p_message),
                   p_worker, p_mail_id, p_digest, facts.subject, clock_timestamp()
            ON CONFLICT (step_id, recipient_id) WHERE status IN ('begun', 'accepted', 'in_doubt') DO NOTHING
            RETURNING id),
        begun AS (
            UPDATE outreach_message SET status = 'begun' FROM intent WHERE outreach_message.id = p_message),
        beat AS (
            UPDATE outreach_claim SET heartbeat_at = clock_timestamp(),
                   lease_until = clock_timestamp() + (lease_until - heartbeat_at)
              FROM intent
             WHERE outreach_claim.id = facts.claim_id
               AND lease_until < clock_timestamp() + (lease_until - heartbeat_at) / 2),
        told AS (
            INSERT INTO outreach_outreachevent (kind, layer, worker, message_id, claim_id, attempt_id, before, after)
            SELECT 'begun', 'gate', p_worker, p_message, facts.claim_id, id, 'claimed', 'begun' FROM intent)
        SELECT id INTO o_attempt FROM intent;
        IF o_attempt IS NOT NULL THEN RETURN; END IF;
        o_reason := 'a try of this step to this address may have gone out';
    END IF;

    -- What becomes of it. A message whose claim is lost is somebody else's to judge.
    v_after := CASE
        WHEN o_reason IN ('the claim is lost', 'the lease has run out') THEN facts.status
        WHEN o_reason = 'the address wants no mail' THEN 'suppressed'
        WHEN o_reason IN ('the sequence was stopped', 'another campaign sent the same content',
                          'a try of this step to this address may have gone out') THEN 'cancelled'
        ELSE 'due' END;
    IF v_after <> facts.status THEN
        WITH stopped AS (
            UPDATE outreach_message
               SET status = v_after, claim_id = NULL,
                   reason = CASE WHEN v_after <> 'due' THEN left(o_reason, 40) ELSE '' END,
                   due_at = coalesce(CASE o_reason WHEN 'quiet period' THEN facts.quiet_until
                                                   WHEN 'outside the sending window' THEN facts.opens_at
                                                   WHEN 'the day''s pace is reached' THEN facts.tomorrow END, due_at)
             WHERE id = p_message
            RETURNING enrolment_id)
        UPDATE outreach_enrolment SET ended_at = clock_timestamp(), end_reason = v_after FROM stopped
         WHERE outreach_enrolment.id = stopped.enrolment_id AND ended_at IS NULL AND v_after <> 'due';
    END IF;
    INSERT INTO outreach_outreachevent (kind, layer, worker, message_id, claim_id, before, after, reason)
    VALUES ('turned_away', CASE WHEN facts.ours THEN 'gate' ELSE 'claim' END, p_worker, p_message, facts.claim_id,
            facts.status, v_after, o_reason);
END $$;
