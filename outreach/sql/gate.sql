-- The two halves of the gate (outreach/moves/gate.py), each one call: the server keeps their plans, which take longer to
-- make than to run. Between them Python judges.

-- Lock claim, message and recipient, in this order, and then say what the database knows of the message. The facts are
-- read in a statement of their own: its snapshot is taken after the locks were waited for. From here on this transaction
-- commits synchronously, whatever the server's default: a crash must not forget the intent.
CREATE FUNCTION outreach_at_gate(p_token uuid, p_message bigint, p_quiet int)
RETURNS TABLE (o_status varchar, o_claim bigint, o_campaign bigint, o_ours boolean, o_lease_runs boolean,
               o_sending_on boolean, o_running boolean, o_enrolled boolean, o_suppressed boolean, o_already boolean,
               o_same_content boolean, o_quiet_until timestamptz, o_opens_at timestamptz, o_pace int, o_day date,
               o_tomorrow timestamptz)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_locked int;
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
    -- the next opening of the campaign's window is null inside it. Quiet periods are those of other campaigns; a
    -- campaign's own steps keep their own delays. The same content is asked about by step, so a longer list does not help.
    RETURN QUERY
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
                           + make_interval(hours => p_quiet), clock.t), clock.t),
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
      LEFT JOIN outreach_claim claim ON claim.token = p_token
      LEFT JOIN outreach_sendattempt earlier
             ON earlier.recipient_id = message.recipient_id AND earlier.status IN ('begun', 'accepted', 'in_doubt')
      LEFT JOIN outreach_step other ON other.id = earlier.step_id
     WHERE message.id = p_message
     GROUP BY message.id, campaign.id, step.id, enrolment.id, claim.id, clock.t, local.t;
END $$;

-- Write the intent down and return its number; nothing where a try of this step to this address may have gone out. The
-- lease is renewed, for as long as it was given, where less than half of it is left, so that it always covers the hand-over that follows.
CREATE FUNCTION outreach_begin(
    p_message bigint, p_claim bigint, p_worker text, p_mail_id text, p_digest text
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_attempt bigint;
BEGIN
    WITH intent AS (
        INSERT INTO outreach_sendattempt
            (message_id, step_id, recipient_id, claim_id, number, worker, mail_id, digest, begun_at)
        SELECT id, step_id, recipient_id, claim_id,
               (SELECT count(*) + 1 FROM outreach_sendattempt WHERE message_id = p_message),
               p_worker, p_mail_id, p_digest, clock_timestamp()
          FROM outreach_message WHERE id = p_message
        ON CONFLICT (step_id, recipient_id) WHERE status IN ('begun', 'accepted', 'in_doubt') DO NOTHING
        RETURNING id),
    begun AS (
        UPDATE outreach_message SET status = 'begun' FROM intent WHERE outreach_message.id = p_message),
    beat AS (
        UPDATE outreach_claim SET heartbeat_at = clock_timestamp(),
               lease_until = clock_timestamp() + (lease_until - heartbeat_at)
          FROM intent
         WHERE outreach_claim.id = p_claim AND lease_until < clock_timestamp() + (lease_until - heartbeat_at) / 2),
    told AS (
        INSERT INTO outreach_outreachevent (kind, layer, worker, message_id, claim_id, attempt_id, before, after)
        SELECT 'begun', 'gate', p_worker, p_message, p_claim, id, 'claimed', 'begun' FROM intent)
    SELECT id INTO v_attempt FROM intent;
    RETURN v_attempt;
END $$;
