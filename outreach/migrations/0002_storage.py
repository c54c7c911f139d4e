"""Storage of the tables that change with every mail, the one row of the sending state, and a job lock's room."""

from django.db import migrations

# Messages change four times within a second and claims with every heartbeat: leave room on the page for it, and vacuum
# by what has changed lately, not by a share of all that was ever sent. Attempts change once.
STORAGE = """
ALTER TABLE outreach_message SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE outreach_claim SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
ALTER TABLE outreach_sendattempt SET (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE outreach_joblock SET (fillfactor = 50, autovacuum_vacuum_threshold = 200);
ALTER TABLE outreach_campaignday SET (fillfactor = 50, autovacuum_vacuum_threshold = 200);
ALTER TABLE outreach_enrolment SET (fillfactor = 90);
INSERT INTO outreach_sendingstate (id) VALUES (1);
"""


class Migration(migrations.Migration):
    dependencies = [("outreach", "0001_tables")]

    operations = [migrations.RunSQL(STORAGE, "DELETE FROM outreach_sendingstate")]
