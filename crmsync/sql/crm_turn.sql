-- Take the turn to plan and to choose mass chunks: one worker at a time, in the order of asking, until its transaction
-- ends. It proves: nobody else changes piles, so that each worker sees what the one before him took and takes the longest
-- pile that is left. It costs: others wait, p_wait_ms at most. The loser is told false and leaves the work to the others.
-- Call it before any row is locked. Interactive messages do not need it.
CREATE FUNCTION crm_turn(p_wait_ms int) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_timeout CONSTANT text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', p_wait_ms || 'ms', true);
    BEGIN
        PERFORM pg_advisory_xact_lock(4712::bigint << 48);  -- teams have 4711 there
    EXCEPTION WHEN lock_not_available THEN
        PERFORM set_config('lock_timeout', v_timeout, true);
        RETURN false;
    END;
    PERFORM set_config('lock_timeout', v_timeout, true);
    RETURN true;
END $$;
