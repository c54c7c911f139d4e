"""The function that puts messages into the outbox, and storage settings of the tables that change with every lead."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"

# Rows of these tables change status or holder several times within seconds: leave room on the page for it, and vacuum by
# what has changed lately, not by a share of all that was ever sent.
STORAGE = """
ALTER TABLE crmsync_outboxmessage SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE crmsync_lane SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 500, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE crmsync_crmrecord SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE crmsync_claim SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
DROP INDEX crmsync_lane_key_d3213af0_like;  -- nobody searches lanes by the beginning of their key
"""
STORAGE_UNDONE = "CREATE INDEX crmsync_lane_key_d3213af0_like ON crmsync_lane (key text_pattern_ops);"


class Migration(migrations.Migration):
    dependencies = [("crmsync", "0001_initial")]

    operations = [
        migrations.RunSQL(STORAGE, STORAGE_UNDONE),
        migrations.RunSQL(
            (SQL / "outbox_merge_parents.sql").read_text(), "DROP FUNCTION outbox_merge_parents(jsonb, jsonb)"
        ),
        migrations.RunSQL(
            (SQL / "outbox_enqueue.sql").read_text(),
            "DROP FUNCTION outbox_enqueue",
        ),
    ]
