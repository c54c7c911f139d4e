"""The turn, in SQL of its own; the membership table, whose lag moves at every turn, keeps room for updates in place."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):
    dependencies = [("routing", "0001_tables"), ("crmsync", "0002_outbox_enqueue")]

    operations = [
        migrations.RunSQL((SQL / "rep_periods.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL((SQL / "take_turns.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL(
            """
            ALTER TABLE routing_membership SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,
                autovacuum_vacuum_threshold = 200);
            ALTER TABLE routing_turnstile SET (fillfactor = 50, autovacuum_vacuum_threshold = 200);
            ALTER TABLE routing_repcount SET (fillfactor = 50, autovacuum_vacuum_threshold = 200);
            ALTER TABLE routing_lead SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05);
            """,
            migrations.RunSQL.noop,
        ),
    ]
