-- Write down what came of a try (outreach/moves/settling.py): ledger, message and event; and where the mail was sent, plan
-- the next step or complete the sequence, and log the mail in the CRM if the campaign's mails are. One call, which keeps
-- its plans; alone it is one transaction.
--
-- Locks the message of the try, whose claim has that token (null: whichever), and looks in the next statement. The waits
-- are in seconds, by how many refusals for now were charged to the message before; after as many as there are waits it is
-- given up. Evidence that a mail went overrules a person who said that it did not, as long as it has not begun again: then
-- it does not leave a second time. Returns whether the outcome was recorded (null: no such try under that token), whose address it was, and what
-- the CRM may be told of a sent mail.
CREATE FUNCTION outreach_settle(
    p_attempt bigint, p_token uuid, p_verdict text, p_phase text, p_code int, p_reply text, p_fault text,
    p_charged boolean, p_waits double precision[], p_layer text, p_worker text,
    OUT o_recorded boolean, OUT o_recipient bigint, OUT o_lead bigint, OUT o_campaign bigint, OUT o_order smallint,
    OUT o_sent_at timestamptz
) LANGUAGE plpgsql VOLATILE
-- One plan for each statement, by index, whatever the statistics say, as at the gate.
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_message bigint;
    v_late boolean;
    v_overruled boolean;
    v_after text;
    v_reason text := '';
    v_kind text;
    v_attempts int;
    v_now timestamptz;
    facts record;
BEGIN
    SELECT id INTO v_message FROM outreach_message
     WHERE id = (SELECT attempt.message_id
                   FROM outreach_sendattempt attempt JOIN outreach_claim claim ON claim.id = attempt.claim_id
                  WHERE attempt.id = p_attempt AND claim.token = coalesce(p_token, claim.token))
       FOR NO KEY UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    SELECT attempt.status AS try_status, attempt.resolved_by, attempt.claim_id, message.status, message.attempts, message.campaign_id,
           message.enrolment_id, message.recipient_id, enrolment.lead_id, enrolment.ended_at, step."order",
           campaign.logs_activities, next.id AS next_id, next.delay AS next_delay
      INTO facts
      FROM outreach_sendattempt attempt
      JOIN outreach_message message ON message.id = attempt.message_id
      JOIN outreach_enrolment enrolment ON enrolment.id = message.enrolment_id
      JOIN outreach_step step ON step.id = message.step_id
      JOIN outreach_campaign campaign ON campaign.id = message.campaign_id
      LEFT JOIN LATERAL (
           SELECT id, delay FROM outreach_step later
            WHERE later.campaign_id = message.campaign_id AND later."order" > step."order"
            ORDER BY later."order" LIMIT 1) next ON true
     WHERE attempt.id = p_attempt;

    v_late := facts.try_status = 'in_doubt';
    v_overruled := facts.try_status = 'disproved' AND p_verdict = 'accepted' AND facts.status IN ('due', 'claimed');
    IF NOT (facts.try_status IN ('begun', 'in_doubt') OR v_overruled) OR (v_late AND p_verdict = 'in_doubt') THEN
        INSERT INTO outreach_outreachevent
            (kind, layer, worker, message_id, claim_id, attempt_id, before, after, reason)
        VALUES ('late', p_layer, p_worker, v_message, facts.claim_id, p_attempt, facts.status, facts.status,
                format('%s reported, was %s', p_verdict, facts.try_status));
        o_recorded := false;
        RETURN;
    END IF;

    -- What the outcome makes of the message.
    v_attempts := facts.attempts + CASE WHEN p_verdict = 'deferred' AND p_charged THEN 1 ELSE 0 END;
    IF p_verdict = 'accepted' THEN
        v_kind := 'sent'; v_after := 'sent';
    ELSIF p_verdict = 'in_doubt' THEN
        v_kind := 'in_doubt'; v_after := 'in_doubt';
    ELSIF p_verdict = 'refused' THEN
        v_kind := 'refused'; v_after := 'failed'; v_reason := 'refused by ' || coalesce(nullif(p_fault, ''), 'relay');
    ELSIF facts.ended_at IS NOT NULL THEN
        v_kind := 'deferred'; v_after := 'cancelled'; v_reason := 'the sequence was stopped';
    ELSIF v_attempts >= cardinality(p_waits) THEN
        v_kind := 'deferred'; v_after := 'failed'; v_reason := 'refused for now too often';
    ELSE
        v_kind := 'deferred'; v_after := 'due';
    END IF;

    v_now := clock_timestamp();
    WITH settled AS (
        UPDATE outreach_sendattempt
           SET status = p_verdict, phase = p_phase, code = p_code, reply = p_reply,
               settled_at = CASE WHEN p_verdict <> 'in_doubt' THEN v_now END
         WHERE id = p_attempt AND status IN ('begun', 'in_doubt', 'disproved')),
    followed AS (
        UPDATE outreach_message
           SET status = v_after, claim_id = NULL, attempts = v_attempts, reason = v_reason,
               sent_at = CASE WHEN v_after = 'sent' THEN v_now END,
               due_at = CASE WHEN v_after = 'due' THEN v_now + make_interval(secs => p_waits[v_attempts + 1])
                             ELSE due_at END
         WHERE id = v_message)
    INSERT INTO outreach_outreachevent
        (kind, layer, worker, message_id, claim_id, attempt_id, before, after, reason)
    VALUES (v_kind, p_layer, p_worker, v_message, facts.claim_id, p_attempt, facts.status, v_after,
            left(btrim(format('%s %s %s', p_phase, coalesce(p_code::text, ''), p_fault))
                 || CASE WHEN v_late THEN ' (late)'
                         WHEN v_overruled THEN format(' (%s had said that it did not go)', facts.resolved_by)
                         ELSE '' END, 200));

    -- A dead mailbox is suppressed by the caller, and its sequences end with that, in the order of that one's locks.
    IF v_after = 'sent' AND facts.next_id IS NOT NULL THEN
        IF facts.ended_at IS NULL THEN
            INSERT INTO outreach_message (campaign_id, enrolment_id, step_id, recipient_id, due_at)
            VALUES (facts.campaign_id, facts.enrolment_id, facts.next_id, facts.recipient_id, v_now + facts.next_delay)
            ON CONFLICT (enrolment_id, step_id) DO NOTHING;
        END IF;
    ELSIF v_after IN ('sent', 'failed', 'cancelled') AND facts.ended_at IS NULL AND p_fault <> 'mailbox' THEN
        UPDATE outreach_enrolment
           SET ended_at = clock_timestamp(), end_reason = CASE v_after WHEN 'sent' THEN 'completed' ELSE 'failed' END
         WHERE id = facts.enrolment_id AND ended_at IS NULL;
    END IF;
    IF v_after = 'sent' AND facts.logs_activities THEN PERFORM outreach_log_activity(p_attempt); END IF;
    o_recorded := true;
    o_recipient := facts.recipient_id;
    o_lead := facts.lead_id;
    o_campaign := facts.campaign_id;
    o_order := facts."order";
    o_sent_at := CASE WHEN v_after = 'sent' THEN v_now END;
END $$;
