-- A published rule never changes: explanations name it by version, and processes keep it in memory for ever. A book may be
-- deleted whole, in one transaction.
CREATE OR REPLACE FUNCTION published_rules_never_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_row record;
BEGIN
    FOR v_row IN SELECT o.* FROM (SELECT OLD.*) o WHERE TG_OP <> 'INSERT' UNION ALL
                 SELECT n.* FROM (SELECT NEW.*) n WHERE TG_OP <> 'DELETE'
    LOOP
        IF EXISTS (SELECT FROM routing_rulebook b
                    WHERE b.status <> 'draft'
                      -- a rule that was deleted from a draft, which the same transaction then published
                      AND NOT (TG_OP = 'DELETE' AND b.published_at >= transaction_timestamp())
                      AND b.id = CASE TG_TABLE_NAME
                                 WHEN 'routing_rulebook' THEN (to_jsonb(v_row) ->> 'id')::bigint
                                 WHEN 'routing_rule' THEN (to_jsonb(v_row) ->> 'book_id')::bigint
                                 ELSE (SELECT r.book_id FROM routing_rule r
                                        WHERE r.id = (to_jsonb(v_row) ->> 'rule_id')::bigint) END) THEN
            RAISE EXCEPTION 'published_rules_never_change' USING ERRCODE = '23514', HINT = 'Change a draft and publish it.';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

DO $$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY['routing_rule', 'routing_rulecondition'] LOOP
        EXECUTE format('DROP TRIGGER IF EXISTS published_rules_never_change ON %I', v_table);
        EXECUTE format('CREATE TRIGGER published_rules_never_change AFTER INSERT OR UPDATE ON %I
                        FOR EACH ROW EXECUTE FUNCTION published_rules_never_change()', v_table);
        EXECUTE format('DROP TRIGGER IF EXISTS published_rules_stay ON %I', v_table);
        EXECUTE format('CREATE CONSTRAINT TRIGGER published_rules_stay AFTER DELETE ON %I DEFERRABLE INITIALLY DEFERRED
                        FOR EACH ROW EXECUTE FUNCTION published_rules_never_change()', v_table);
    END LOOP;
END $$;

DROP TRIGGER IF EXISTS published_rules_never_change ON routing_rulebook;
CREATE TRIGGER published_rules_never_change AFTER UPDATE ON routing_rulebook FOR EACH ROW
    WHEN (OLD.status <> 'draft' AND (OLD.version, OLD.free_mail, OLD.company_mail, OLD.regions)
                                    IS DISTINCT FROM (NEW.version, NEW.free_mail, NEW.company_mail, NEW.regions))
    EXECUTE FUNCTION published_rules_never_change();
