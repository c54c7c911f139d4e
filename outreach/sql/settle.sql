-- The two halves of a settlement (outreach/moves/settling.py), each one call: the server keeps their plans.

-- Lock the message of a try, whose claim has that token (null: whichever), and say whether there is one.
CREATE FUNCTION outreach_hold_try(p_attempt bigint, p_token uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_message bigint;
BEGIN
    SELECT id INTO v_message FROM outreach_message
     WHERE id = (SELECT attempt.message_id
                   FROM outreach_sendattempt attempt JOIN outreach_claim claim ON claim.id = attempt.claim_id
                  WHERE attempt.id = p_attempt AND claim.token = coalesce(p_token, claim.token))
       FOR NO KEY UPDATE;
    RETURN v_message IS NOT NULL;
END $$;

-- Write down what came of a try: ledger, message and event; and where the mail was sent, plan the next step or complete
-- the sequence. Returns what the CRM may be told of a sent mail, else nothing.
CREATE FUNCTION outreach_settle(
    p_attempt bigint, p_verdict text, p_phase text, p_code int, p_reply text, p_message bigint, p_before text,
    p_after text, p_attempts int, p_reason text, p_wait double precision, p_kind text, p_layer text, p_worker text,
    p_claim bigint, p_why text, p_enrolment bigint
) RETURNS TABLE (o_uid uuid, o_in_crm boolean, o_campaign varchar, o_order smallint, o_sent_at timestamptz)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    WITH settled AS (
        UPDATE outreach_sendattempt
           SET status = p_verdict, phase = p_phase, code = p_code, reply = p_reply,
               settled_at = CASE WHEN p_verdict <> 'in_doubt' THEN clock_timestamp() END
         WHERE id = p_attempt AND status IN ('begun', 'in_doubt')),
    followed AS (
        UPDATE outreach_message
           SET status = p_after, claim_id = NULL, attempts = p_attempts, reason = p_reason,
               sent_at = CASE WHEN p_after = 'sent' THEN clock_timestamp() END,
               due_at = coalesce(clock_timestamp() + make_interval(secs => p_wait), due_at)
         WHERE id = p_message)
    INSERT INTO outreach_outreachevent
        (kind, layer, worker, message_id, claim_id, attempt_id, before, after, reason)
    VALUES (p_kind, p_layer, p_worker, p_message, p_claim, p_attempt, p_before, p_after, p_why);
    IF p_after <> 'sent' THEN RETURN; END IF;
    RETURN QUERY
    WITH sent AS (
        SELECT message.*, step."order"
          FROM outreach_message message JOIN outreach_step step ON step.id = message.step_id
         WHERE message.id = p_message),
    next AS (
        SELECT id, delay FROM outreach_step
         WHERE campaign_id = (SELECT campaign_id FROM sent) AND "order" > (SELECT "order" FROM sent)
         ORDER BY "order" LIMIT 1),
    planned AS (
        INSERT INTO outreach_message (campaign_id, enrolment_id, step_id, recipient_id, due_at)
        SELECT sent.campaign_id, sent.enrolment_id, next.id, sent.recipient_id, sent.sent_at + next.delay
          FROM sent, next, outreach_enrolment enrolment
         WHERE enrolment.id = sent.enrolment_id AND enrolment.ended_at IS NULL
        ON CONFLICT (enrolment_id, step_id) DO NOTHING),
    completed AS (
        UPDATE outreach_enrolment SET ended_at = clock_timestamp(), end_reason = 'completed'
         WHERE id = p_enrolment AND ended_at IS NULL AND NOT EXISTS (SELECT FROM next))
    SELECT lead.uid, lead.first_assigned_at IS NOT NULL, campaign.name, sent."order", sent.sent_at
      FROM sent
      JOIN outreach_campaign campaign ON campaign.id = sent.campaign_id
      JOIN outreach_enrolment enrolment ON enrolment.id = sent.enrolment_id
      JOIN routing_lead lead ON lead.id = enrolment.lead_id;
END $$;
