-- The parents of two versions of one record: each relation as the newer version names it, else as the older does.
CREATE FUNCTION outbox_merge_parents(p_older jsonb, p_newer jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN p_older = '[]' THEN p_newer
        WHEN p_newer = '[]' THEN p_older
        ELSE p_newer || coalesce(
            (SELECT jsonb_agg(o ORDER BY o ->> 'relation') FROM jsonb_array_elements(p_older) AS o
              WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(p_newer) AS n WHERE n ->> 'relation' = o ->> 'relation')),
            '[]')
    END
$$;
