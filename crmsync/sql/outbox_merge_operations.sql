-- What an older change of a record and a newer one come to, when they are sent as one: what is sent next, and what after
-- that. A newer deletion makes the older change vanish. A write after a deletion must not undo it: the record is deleted
-- first, and the write is sent afterwards. Of two writes an upsert is stronger: it creates the record where need be.
CREATE OR REPLACE FUNCTION outbox_merge_operation(p_older text, p_newer text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN 'delete' IN (p_older, p_newer) THEN 'delete' WHEN 'upsert' IN (p_older, p_newer) THEN 'upsert' ELSE 'update' END
$$;

CREATE OR REPLACE FUNCTION outbox_merge_afterwards(p_older text, p_older_after text, p_newer text, p_newer_after text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_newer = 'delete' THEN p_newer_after
                WHEN p_older = 'delete' THEN outbox_merge_operation(coalesce(p_older_after, p_newer), p_newer) END
$$;

-- The fields or parents of the two: of a record that is deleted in between, only the newer ones.
CREATE OR REPLACE FUNCTION outbox_merge_fields(p_older jsonb, p_newer_operation text, p_newer jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_newer_operation = 'delete' THEN p_newer ELSE p_older || p_newer END
$$;
