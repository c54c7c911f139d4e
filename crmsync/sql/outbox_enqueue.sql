-- Put changes of CRM records into the outbox, inside the caller's transaction. The only writer of new messages: Python
-- calls it through crmsync.outbox.enqueue, the turn calls it with all the leads it has just assigned.
--
-- A version is drawn while the record's row is locked, and stays locked until the caller commits. It proves: versions of
-- a record are committed in the order they were drawn, and nobody else absorbs or puts back its pending message meanwhile.
-- It costs: a second writer of the same record waits for the first one's commit. Records are locked in ascending external
-- id; who calls twice in one transaction keeps to that order himself, or risks a deadlock.
--
-- The pending message of a record, if it has one, is absorbed: its fields go into the new version where that does not set
-- them, its parents where that does not name the relation, and what it has waited and failed so far stays counted. A
-- claimed message is left alone; the new version waits behind it. Row per external id, in ascending order.
--
-- A call is of one operation. A deletion writes nothing: the parents it is given are those the record has in the CRM, and
-- are noted as such where nothing better is known, so that they are locked. A mass update gives its batch and its lines.
DROP FUNCTION IF EXISTS outbox_enqueue(text, text[], jsonb[], jsonb[], smallint);
CREATE OR REPLACE FUNCTION outbox_enqueue(
    p_object text, p_external_ids text[], p_fields jsonb[], p_parents jsonb[] DEFAULT NULL, p_priority smallint DEFAULT 0,
    p_operation text DEFAULT 'upsert', p_batch bigint DEFAULT NULL, p_lines int[] DEFAULT NULL
) RETURNS TABLE (external_id text, record_id bigint, message_id bigint, version bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    v_count CONSTANT int := coalesce(cardinality(p_external_ids), 0);
    v_records bigint[];
    v_keys text[];
    v_versions bigint[];
    v_messages bigint[];
    v_known bigint[];
    v_times int;
BEGIN
    IF v_count <> coalesce(cardinality(p_fields), 0) OR (p_parents IS NOT NULL AND v_count <> cardinality(p_parents))
       OR (p_batch IS NOT NULL AND v_count <> coalesce(cardinality(p_lines), 0)) THEN
        RAISE EXCEPTION 'outbox_enqueue: % keys, % fields, % parents, % lines',
            v_count, cardinality(p_fields), cardinality(p_parents), cardinality(p_lines) USING ERRCODE = '22023';
    END IF;
    IF v_count = 0 THEN RETURN; END IF;

    -- The same record twice in one call: its later entry is a newer version, and absorbs the earlier.
    SELECT max(n) INTO v_times FROM (SELECT count(*) AS n FROM unnest(p_external_ids) AS k GROUP BY k) AS t;
    IF v_times > 1 THEN
        FOR i IN 1..v_times LOOP
            RETURN QUERY
            SELECT e.* FROM (
                SELECT array_agg(k ORDER BY ord) AS keys, array_agg(f ORDER BY ord) AS fields, array_agg(p ORDER BY ord) AS parents,
                       array_agg(l ORDER BY ord) AS lines
                FROM (
                    SELECT ord, k, f, coalesce(p, '[]') AS p, l, row_number() OVER (PARTITION BY k ORDER BY ord) AS nth
                    FROM unnest(p_external_ids, p_fields, p_parents, p_lines) WITH ORDINALITY AS u(k, f, p, l, ord)
                ) AS numbered
                WHERE nth = i
            ) AS part, LATERAL outbox_enqueue(
                p_object, part.keys, part.fields, part.parents, p_priority, p_operation, p_batch, part.lines) AS e;
        END LOOP;
        RETURN;
    END IF;

    WITH drawn AS (
        INSERT INTO crmsync_crmrecord AS r (object, external_id, version)
        SELECT p_object, k, 1 FROM unnest(p_external_ids) AS k ORDER BY k
        ON CONFLICT (object, external_id) DO UPDATE SET version = r.version + 1
        RETURNING r.id, r.external_id, r.version
    )
    SELECT array_agg(id ORDER BY external_id), array_agg(external_id ORDER BY external_id),
           array_agg(version ORDER BY external_id), array_agg(id) FILTER (WHERE version > 1)
      INTO v_records, v_keys, v_versions, v_known FROM drawn;

    SELECT array_agg(nextval(pg_get_serial_sequence('crmsync_outboxmessage', 'id'))) INTO v_messages
      FROM generate_series(1, v_count);

    IF p_operation = 'delete' AND p_parents IS NOT NULL THEN
        UPDATE crmsync_crmrecord AS r SET parents = outbox_merge_parents(g.parents, r.parents)
          FROM unnest(v_records, v_keys) AS d(record, key)
          JOIN unnest(p_external_ids, p_parents) AS g(key, parents) ON g.key = d.key
         WHERE r.id = d.record AND g.parents <> '[]';
    END IF;

    WITH given AS (
        SELECT d.message, d.record, d.version,
               CASE WHEN p_operation = 'delete' THEN '{}' ELSE g.fields END AS fields,
               CASE WHEN p_operation = 'delete' THEN '[]' ELSE coalesce(g.parents, '[]') END AS parents, g.line
          FROM unnest(v_records, v_keys, v_versions, v_messages) AS d(record, key, version, message)
          JOIN unnest(p_external_ids, p_fields, p_parents, p_lines) AS g(key, fields, parents, line) ON g.key = d.key
    ),
    -- In a statement after the one that waited, so that it sees what the holders have committed. A claimer may hold the
    -- pending row for a moment: then we wait, read its status again, and leave it alone if it has become claimed.
    absorbed AS (
        UPDATE crmsync_outboxmessage AS m
           SET status = 'superseded', settled_at = clock_timestamp(), superseded_by_id = given.message
          FROM given
         WHERE m.record_id = given.record AND m.record_id = ANY (v_known) AND m.status = 'pending'
        RETURNING m.record_id, m.operation, m.afterwards, m.fields, m.parents, m.priority, m.due_at, m.attempts,
                  m.requested_by, m.reason
    )
    INSERT INTO crmsync_outboxmessage
        (id, record_id, version, operation, afterwards, fields, parents, priority, due_at, attempts, requested_by, reason,
         batch_id, line)
    SELECT g.message, g.record, g.version, outbox_merge_operation(coalesce(a.operation, p_operation), p_operation),
           outbox_merge_afterwards(a.operation, a.afterwards, p_operation, NULL),
           outbox_merge_fields(coalesce(a.fields, '{}'), p_operation, g.fields),
           CASE WHEN p_operation = 'delete' THEN '[]' ELSE outbox_merge_parents(coalesce(a.parents, '[]'), g.parents) END,
           least(a.priority, p_priority),
           CASE WHEN a.attempts > 0 THEN greatest(a.due_at, clock_timestamp()) ELSE clock_timestamp() END,
           coalesce(a.attempts, 0), coalesce(a.requested_by, ''), coalesce(a.reason, ''), p_batch, g.line
      FROM given AS g LEFT JOIN absorbed AS a ON a.record_id = g.record;
    RETURN QUERY SELECT * FROM unnest(v_keys, v_records, v_messages, v_versions);
END $$;
