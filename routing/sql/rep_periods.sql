-- The periods in which a rep's leads are counted at a moment, one row for each cap the rep has; empty for a rep without caps.
-- A rep's day is the local date; a week begins on Monday; open leads have no beginning (RepCount).
CREATE OR REPLACE FUNCTION rep_periods_of(r routing_rep, p_now timestamptz)
RETURNS TABLE (kind text, since date, cap int) LANGUAGE sql STABLE AS $$
    SELECT p.kind, p.since, p.cap
      FROM (VALUES ('day', (p_now AT TIME ZONE r.zone)::date, r.day_cap),
                   ('week', date_trunc('week', p_now AT TIME ZONE r.zone)::date, r.week_cap),
                   ('open', '0001-01-01'::date, r.open_cap)) AS p(kind, since, cap)
     WHERE p.cap IS NOT NULL
$$;

-- The same for every capped rep of a team's active members.
CREATE OR REPLACE FUNCTION rep_periods(p_team bigint, p_now timestamptz)
RETURNS TABLE (rep_id bigint, kind text, since date, cap int) LANGUAGE sql STABLE AS $$
    SELECT r.id, p.kind, p.since, p.cap
      FROM routing_membership m JOIN routing_rep r ON r.id = m.rep_id, rep_periods_of(r, p_now) p
     WHERE m.team_id = p_team AND m.active AND r.retired_at IS NULL
$$;

-- What the CRM is told of a lead when it is given to a rep: Rota's field names, empty ones left out. `p_account` is the
-- CRM's id of the account it was matched to. What a sender calls owner, status or matched_account is not what Rota means
-- by it, and a form must not choose the owner; nor may it name a field of the org past the mapping, as mass updates do
-- ("org:OwnerId").
DROP FUNCTION IF EXISTS lead_fields(routing_lead, text);
CREATE OR REPLACE FUNCTION lead_fields(l routing_lead, p_owner text, p_account text) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT (CASE WHEN l.fields::text LIKE '%"org:%'
                 THEN (SELECT coalesce(jsonb_object_agg(f.key, f.value), '{}') FROM jsonb_each(l.fields) AS f
                        WHERE NOT starts_with(f.key, 'org:'))
                 ELSE l.fields END - ARRAY['owner', 'status', 'matched_account']) || jsonb_strip_nulls(jsonb_build_object(
        'email', nullif(l.email, ''), 'phone', nullif(l.phone, ''), 'first_name', nullif(l.first_name, ''),
        'last_name', nullif(l.last_name, ''), 'company', nullif(l.company, ''), 'country', nullif(l.country, ''),
        'owner', nullif(p_owner, ''), 'matched_account', nullif(p_account, '')))
$$;

-- What the CRM is told of a lead that changes hands: the new owner, and nothing that somebody may have edited there.
CREATE OR REPLACE FUNCTION lead_owner(p_owner text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_owner = '' THEN '{}'::jsonb ELSE jsonb_build_object('owner', p_owner) END
$$;
