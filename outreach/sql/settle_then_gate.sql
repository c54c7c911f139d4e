-- Settle the last mail of a batch and pass the gate for the next (outreach/moves/onward.py): one call and one transaction,
-- and so one commit for each mail where two calls would be two. Whatever ends it early, both or neither was written.
--
-- The claim is locked first, as at the gate, so that nobody who has it waits for the message that the settlement locks.
CREATE FUNCTION outreach_settle_then_gate(
    p_attempt bigint, p_verdict text, p_phase text, p_code int, p_reply text, p_fault text, p_charged boolean,
    p_waits double precision[], p_layer text, p_worker text, p_token uuid, p_message bigint, p_quiet int, p_mail_id text,
    p_digest text, p_subject text,
    OUT o_recorded boolean, OUT o_attempt bigint, OUT o_reason text, OUT o_ours boolean
) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    PERFORM FROM outreach_claim WHERE token = p_token FOR NO KEY UPDATE;
    SELECT settled.o_recorded INTO o_recorded
      FROM outreach_settle(p_attempt, p_token, p_verdict, p_phase, p_code, p_reply, p_fault, p_charged, p_waits, p_layer,
                           p_worker) AS settled;
    SELECT gate.o_attempt, gate.o_reason, gate.o_ours INTO o_attempt, o_reason, o_ours
      FROM outreach_gate(p_token, p_message, p_quiet, p_worker, p_mail_id, p_digest, p_subject) AS gate;
END $$;
