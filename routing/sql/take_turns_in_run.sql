-- Take turns as `take_turns` does, and note which run they were of. The turnstile is still held, by the same call on the
-- server: the last turns of the team are the ones just taken.
CREATE OR REPLACE FUNCTION take_turns_in_run(p_run bigint, p_team bigint, p_most int, p_wait int, p_leads bigint[] DEFAULT NULL)
RETURNS TABLE (outcome text, membership_id bigint, rep_id bigint, rep_name text, taken int, more boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t record;
BEGIN
    SELECT * INTO t FROM take_turns(p_team, NULL, p_most, p_wait, p_leads);
    IF t.taken > 0 THEN
        UPDATE routing_assignment a SET run_id = p_run FROM routing_turnstile s
         WHERE s.team_id = p_team AND a.team_id = p_team AND a.turn > s.turn - t.taken;
    END IF;
    RETURN QUERY SELECT t.outcome, t.membership_id, t.rep_id, t.rep_name, t.taken, t.more;
END $$;
