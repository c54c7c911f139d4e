-- The key of a team's turnstile among the advisory locks of the database: 4711 in the upper 16 bits, the team below.
CREATE OR REPLACE FUNCTION turnstile_key(p_team bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT (4711::bigint << 48) | p_team $$;

-- Take the turns of a team: the one function by which leads are given to reps.
--
--   p_team   whose turns
--   p_lead   the lead the caller asks about, or null
--   p_most   turns taken at most
--   p_wait   how long to wait for the turnstile, in milliseconds
--   p_leads  null: the waiting leads of the team that somebody present may take, oldest first; else these only, which the
--            caller has claimed in this same transaction
--
-- Returns one row: outcome (assigned, waiting, busy, retired; done where no lead was asked about), the member and rep the
-- lead went to, how many turns were taken, and whether leads may be left beyond p_most.
--
-- Call it in autocommit: the turnstile is then held on the server only, never across a client's round trip, and a crowd is
-- served by whoever holds it. Raises 25001 unless READ COMMITTED: each statement here must see what the last holder wrote.
CREATE OR REPLACE FUNCTION take_turns(
    p_team bigint, p_lead bigint DEFAULT NULL, p_most int DEFAULT 100, p_wait int DEFAULT 100, p_leads bigint[] DEFAULT NULL
) RETURNS TABLE (outcome text, membership_id bigint, rep_id bigint, rep_name text, taken int, more boolean)
LANGUAGE plpgsql VOLATILE
-- One plan for each statement here, by index, whatever the statistics say: leads wait and go so fast that they are old at
-- once, and a scan of all that wait would be made under the turnstile. Planned once a connection, not at each turn: that
-- was two fifths of a turn's time.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    scale CONSTANT bigint := 1000000000000;      -- one lead (routing.models.team.SCALE)
    rounding CONSTANT bigint := 1000000;         -- a millionth of it: floored shares, not a lead owed (team.ROUNDING)
    unlimited CONSTANT int := 2147483647;
    timeout_before text := current_setting('lock_timeout');
    v_now timestamptz; v_ignore_hours boolean; v_direct_counts boolean;
    v_turn bigint; v_first bigint;
    -- the members of the team, by id: one array a column
    ids bigint[]; reps bigint[]; weights int[]; lags bigint[]; lasts bigint[]; rooms int[]; rooms_before int[]; whys text[];
    v_present bigint[]; v_parts bigint[]; v_members bigint[]; v_candidates_of bigint[]; v_rooms_changed int := 0;
    v_head bigint[]; v_after bigint := 0; v_want int;
    l record; i int; k int; v_total bigint; v_given bigint; v_due bigint; v_sole bigint;
    v_best int; v_best_owed boolean; v_owed boolean; v_one numeric; v_two numeric; v_better boolean;
    v_roster bigint; v_key text; v_digest text; v_candidates jsonb; v_skipped jsonb;
    roster_keys text[] := '{}'; roster_ids bigint[] := '{}';
    -- what was decided: one array a column
    w_lead bigint[] := '{}'; w_member bigint[] := '{}'; w_turn bigint[] := '{}'; w_roster bigint[] := '{}';
    w_sole boolean[] := '{}'; w_before bigint[] := '{}'; w_after bigint[] := '{}';
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'take_turns needs READ COMMITTED' USING ERRCODE = '25001';
    END IF;

    -- The turnstile. Proves: one holder per team until commit. Costs: the team's other callers wait for our commit, nobody
    -- else does. The loser's lead stays waiting for the next holder or the sweep. In a subtransaction: a timeout is no error.
    BEGIN
        PERFORM set_config('lock_timeout', p_wait || 'ms', true);
        PERFORM pg_advisory_xact_lock(turnstile_key(p_team));
        PERFORM set_config('lock_timeout', timeout_before, true);
    EXCEPTION WHEN lock_not_available THEN
        RETURN QUERY
            SELECT CASE WHEN a.id IS NULL THEN 'busy' ELSE 'assigned' END, a.membership_id, r.id, r.name::text, 0, true
              FROM (SELECT 1) AS one
              LEFT JOIN routing_assignment a ON a.lead_id = p_lead AND a.ended_at IS NULL
              LEFT JOIN routing_membership m ON m.id = a.membership_id
              LEFT JOIN routing_rep r ON r.id = m.rep_id;
        RETURN;
    END;

    -- From here on each statement has a snapshot that includes the last holder's commit. One moment serves the whole call,
    -- so that a turn across midnight is of one day.
    v_now := clock_timestamp();

    -- Somebody may have taken our lead's turn while we queued.
    IF p_lead IS NOT NULL THEN
        RETURN QUERY
            SELECT 'assigned'::text, m.id, r.id, r.name::text, 0, false
              FROM routing_assignment a
              JOIN routing_membership m ON m.id = a.membership_id
              JOIN routing_rep r ON r.id = m.rep_id
             WHERE a.lead_id = p_lead AND a.ended_at IS NULL;
        IF FOUND THEN RETURN; END IF;
    END IF;

    SELECT t.outside_hours = 'ignore', t.direct_counts INTO v_ignore_hours, v_direct_counts
      FROM routing_team t WHERE t.id = p_team AND t.retired_at IS NULL;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'retired'::text, NULL::bigint, NULL::bigint, NULL::text, 0, false;
        RETURN;
    END IF;
    SELECT turn INTO v_turn FROM routing_turnstile WHERE team_id = p_team;
    IF NOT FOUND THEN
        INSERT INTO routing_turnstile (team_id) VALUES (p_team);
        v_turn := 0;
    END IF;
    v_first := v_turn;

    -- The counters of capped reps, locked in rep order: the same rep may be taking a turn in another team.
    -- Proves: no cap is exceeded. Costs: teams that share a capped rep take turns one after the other.
    IF EXISTS (SELECT FROM routing_membership m JOIN routing_rep r ON r.id = m.rep_id
                WHERE m.team_id = p_team AND m.active AND r.retired_at IS NULL
                  AND (r.day_cap IS NOT NULL OR r.week_cap IS NOT NULL OR r.open_cap IS NOT NULL)) THEN
        INSERT INTO routing_repcount (rep_id, kind, since, count)
             SELECT r.rep_id, r.kind, r.since, 0 FROM rep_periods(p_team, v_now) r ORDER BY r.rep_id, r.kind
        ON CONFLICT (rep_id, kind, since) DO NOTHING;
        PERFORM 1 FROM routing_repcount c JOIN rep_periods(p_team, v_now) r USING (rep_id, kind, since)
          ORDER BY c.rep_id, c.kind FOR NO KEY UPDATE OF c;
    END IF;

    SELECT array_agg(m.id ORDER BY m.id), array_agg(m.rep_id ORDER BY m.id), array_agg(m.weight ORDER BY m.id),
           array_agg(m.lag ORDER BY m.id), array_agg(m.last_turn ORDER BY m.id),
           array_agg(coalesce(c.room, unlimited) ORDER BY m.id),
           array_agg(CASE WHEN r.retired_at IS NOT NULL THEN 'retired'
                          ELSE coalesce(CASE WHEN NOT v_ignore_hours THEN off_because(r, v_now) END,
                                        CASE WHEN c.room <= 0 THEN c.kind || ' cap' END) END ORDER BY m.id)
      INTO ids, reps, weights, lags, lasts, rooms, whys
      FROM routing_membership m
      JOIN routing_rep r ON r.id = m.rep_id
      LEFT JOIN LATERAL (SELECT p.cap - n.count AS room, p.kind
                           FROM rep_periods_of(r, v_now) p
                           JOIN routing_repcount n ON n.rep_id = r.id AND n.kind = p.kind AND n.since = p.since
                          WHERE r.day_cap IS NOT NULL OR r.week_cap IS NOT NULL OR r.open_cap IS NOT NULL
                          ORDER BY p.cap - n.count LIMIT 1) c ON true
     WHERE m.team_id = p_team AND m.active;
    k := coalesce(cardinality(ids), 0);
    rooms_before := rooms;
    SELECT coalesce(array_agg(u.id), '{}') INTO v_present FROM unnest(ids, whys) AS u(id, why) WHERE u.why IS NULL;
    SELECT coalesce(array_agg(p.id), '{}') INTO v_parts FROM routing_teampart p
     WHERE p.team_id = p_team AND p.members && v_present;

    WHILE cardinality(v_present) > 0 AND cardinality(w_lead) < p_most LOOP
        v_want := p_most - cardinality(w_lead);
        IF p_leads IS NOT NULL THEN
            SELECT array_agg(a.id ORDER BY a.id) INTO v_head FROM unnest(p_leads) AS a(id) WHERE a.id > v_after;
        ELSE
            -- The oldest by part: a long row of leads for somebody absent is not read at all. Ordered by part and id, over a
            -- range of one part, so that lead_waiting is the only index in this order and the key alone is none.
            SELECT array_agg(h.id ORDER BY h.id) INTO v_head FROM (
                SELECT w.id FROM (
                    (SELECT id FROM routing_lead
                      WHERE team_id = p_team AND status = 'waiting' AND part_id IS NULL AND id > v_after
                      ORDER BY part_id, id LIMIT v_want)
                    UNION ALL
                    SELECT o.id FROM unnest(v_parts) AS p(id)
                     CROSS JOIN LATERAL (SELECT id FROM routing_lead
                                          WHERE team_id = p_team AND status = 'waiting'
                                            AND part_id BETWEEN p.id AND p.id AND id > v_after
                                          ORDER BY part_id, id LIMIT v_want) o
                ) w ORDER BY w.id LIMIT v_want) h;
        END IF;
        EXIT WHEN v_head IS NULL;
        v_after := v_head[cardinality(v_head)];

        -- Skip what another transaction holds (a person re-assigning, a command that was asked for these): it settles it.
        -- By key alone, and looked at afterwards: with team and status in the WHERE, a planner without statistics walks the
        -- index of all that wait.
        FOR l IN SELECT id, team_id, status, part_id, preferred_id FROM routing_lead
                  WHERE id = ANY (v_head) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
        LOOP
            EXIT WHEN cardinality(w_lead) >= p_most;
            CONTINUE WHEN l.status <> 'waiting' OR l.team_id <> p_team;
            v_sole := NULL; v_members := NULL; v_total := 0; v_given := 0; v_best := NULL;
            IF l.part_id IS NOT NULL THEN
                SELECT members INTO v_members FROM routing_teampart WHERE id = l.part_id;
            END IF;
            IF l.preferred_id IS NOT NULL AND (v_members IS NULL OR l.preferred_id = ANY (v_members)) THEN
                i := array_position(ids, l.preferred_id);
                IF i IS NOT NULL AND whys[i] IS NULL AND rooms[i] > 0 THEN v_sole := l.preferred_id; END IF;
            END IF;
            -- Whose leads past the turns are on top of the share is the only candidate: one candidate moves nobody. Where
            -- they count, the others are due their shares of this lead too, and only the winner is settled beforehand.
            v_candidates_of := CASE WHEN v_direct_counts OR v_sole IS NULL THEN v_members ELSE ARRAY[v_sole] END;
            FOR i IN 1..k LOOP
                IF whys[i] IS NULL AND rooms[i] > 0 AND (v_candidates_of IS NULL OR ids[i] = ANY (v_candidates_of))
                THEN v_total := v_total + weights[i]; END IF;
            END LOOP;
            CONTINUE WHEN v_total = 0;

            -- Every candidate gains its share of one lead; among those owed something, the earliest finish wins.
            FOR i IN 1..k LOOP
                CONTINUE WHEN NOT (whys[i] IS NULL AND rooms[i] > 0
                                   AND (v_candidates_of IS NULL OR ids[i] = ANY (v_candidates_of)));
                v_due := scale * weights[i] / v_total;
                v_given := v_given + v_due;
                lags[i] := lags[i] + v_due;
                v_owed := lags[i] > rounding;
                IF v_best IS NULL OR v_owed <> v_best_owed THEN
                    v_better := v_best IS NULL OR v_owed;
                ELSIF v_owed THEN
                    -- (scale - lag) * total / weight, compared across: exact, and total is the same on both sides
                    v_one := (scale - lags[i])::numeric * weights[v_best];
                    v_two := (scale - lags[v_best])::numeric * weights[i];
                    v_better := v_one < v_two OR (v_one = v_two AND lasts[i] < lasts[v_best]);
                ELSE
                    v_better := lags[i] > lags[v_best] OR (lags[i] = lags[v_best] AND lasts[i] < lasts[v_best]);
                END IF;
                IF v_better THEN v_best := i; v_best_owed := v_owed; END IF;
            END LOOP;
            IF v_sole IS NOT NULL THEN v_best := array_position(ids, v_sole); END IF;

            v_key := format('%s/%s/%s', v_rooms_changed, l.part_id, CASE WHEN NOT v_direct_counts THEN v_sole END);
            i := array_position(roster_keys, v_key);
            IF i IS NOT NULL THEN
                v_roster := roster_ids[i];
            ELSE
                SELECT coalesce(jsonb_object_agg(u.id, u.weight) FILTER (WHERE u.candidate), '{}'),
                       coalesce(jsonb_object_agg(u.id, u.why) FILTER (WHERE NOT u.candidate), '{}')
                  INTO v_candidates, v_skipped
                  FROM (SELECT m.id, m.weight, why, why IS NULL AS candidate
                          FROM (SELECT n.id, n.weight,
                                       CASE WHEN n.why IS NOT NULL THEN n.why WHEN n.room <= 0 THEN 'cap reached'
                                            WHEN n.id <> ALL (v_members) THEN 'not among those allowed'
                                            WHEN n.id <> v_sole AND NOT v_direct_counts THEN 'another is preferred' END AS why
                                  FROM unnest(ids, weights, rooms, whys) AS n(id, weight, room, why)) m) u;
                v_digest := md5(v_candidates::text || v_skipped::text);
                SELECT id INTO v_roster FROM routing_roster WHERE team_id = p_team AND digest = v_digest;
                IF NOT FOUND THEN
                    INSERT INTO routing_roster (team_id, digest, candidates, skipped)
                         VALUES (p_team, v_digest, v_candidates, v_skipped) RETURNING id INTO v_roster;
                END IF;
                roster_keys := roster_keys || v_key; roster_ids := roster_ids || v_roster;
            END IF;

            v_turn := v_turn + 1;
            w_lead := w_lead || l.id; w_member := w_member || ids[v_best]; w_turn := w_turn || v_turn;
            w_roster := w_roster || v_roster; w_sole := w_sole || (v_sole IS NOT NULL);
            w_before := w_before || (lags[v_best] - scale * weights[v_best] / v_total);
            lags[v_best] := lags[v_best] - v_given;
            w_after := w_after || lags[v_best];
            lasts[v_best] := v_turn;
            IF rooms[v_best] < unlimited THEN
                rooms[v_best] := rooms[v_best] - 1;
                IF rooms[v_best] = 0 THEN
                    v_rooms_changed := v_rooms_changed + 1;
                    v_present := array_remove(v_present, ids[v_best]);
                END IF;
            END IF;
        END LOOP;
        EXIT WHEN p_leads IS NOT NULL OR cardinality(v_head) < v_want;
        IF v_rooms_changed > 0 THEN
            SELECT coalesce(array_agg(p.id), '{}') INTO v_parts FROM routing_teampart p
             WHERE p.team_id = p_team AND p.members && v_present;
        END IF;
    END LOOP;

    IF v_turn > v_first THEN
        UPDATE routing_turnstile SET turn = v_turn WHERE team_id = p_team;
        UPDATE routing_membership m SET lag = u.lag, last_turn = u.last
          FROM unnest(ids, lags, lasts) AS u(id, lag, last)
         WHERE m.id = u.id AND (m.lag, m.last_turn) <> (u.lag, u.last);
        IF rooms <> rooms_before THEN
            UPDATE routing_repcount c SET count = c.count + u.before - u.after
              FROM unnest(reps, rooms_before, rooms) AS u(rep, before, after)
              JOIN rep_periods(p_team, v_now) p ON p.rep_id = u.rep
             WHERE u.before <> u.after AND c.rep_id = u.rep AND c.kind = p.kind AND c.since = p.since;
        END IF;
        UPDATE routing_lead SET status = 'assigned', first_assigned_at = coalesce(first_assigned_at, v_now)
         WHERE id = ANY (w_lead);
        INSERT INTO routing_assignment
               (lead_id, membership_id, team_id, turn, roster_id, preferred, lag_before, lag_after, assigned_at)
        SELECT u.lead, u.member, p_team, u.turn, u.roster, u.sole, u.before, u.after, v_now
          FROM unnest(w_lead, w_member, w_turn, w_roster, w_sole, w_before, w_after)
               AS u(lead, member, turn, roster, sole, before, after);
        PERFORM outbox_enqueue('Lead', array_agg(o.uid), array_agg(o.fields))
           FROM (-- who had a rep before is known to the CRM: only the owner is news; each lead by its key, for as a join a
                 -- plan that was made while there were few leads reads all of them
                 SELECT (l.known).uid::text AS uid, CASE WHEN (l.known).first_assigned_at = v_now
                                                        THEN lead_fields(l.known, r.crm_user_id, a.crm_id)
                                                        ELSE lead_owner(r.crm_user_id) END AS fields
                   FROM unnest(w_lead, w_member) AS u(lead, member)
                  CROSS JOIN LATERAL (SELECT known FROM routing_lead AS known WHERE known.id = u.lead LIMIT 1) l
                   JOIN routing_membership m ON m.id = u.member
                   JOIN routing_rep r ON r.id = m.rep_id
                   LEFT JOIN routing_account a ON a.id = (l.known).account_id) o
          WHERE o.fields <> '{}';
    END IF;

    i := array_position(w_lead, p_lead);
    RETURN QUERY
        SELECT CASE WHEN p_lead IS NULL THEN 'done' WHEN i IS NULL THEN 'waiting' ELSE 'assigned' END,
               m.id, r.id, r.name::text, cardinality(w_lead), p_leads IS NULL AND cardinality(w_lead) >= p_most
          FROM (SELECT 1) AS one
          LEFT JOIN routing_membership m ON m.id = w_member[i]
          LEFT JOIN routing_rep r ON r.id = m.rep_id;
END $$;
