"""The gate and the settlement as functions of the server, which keeps their plans."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql"
NO_GATE = "DROP FUNCTION outreach_gate(uuid, bigint, int, text, text, text, text)"
NO_SETTLE = """
DROP FUNCTION outreach_settle(bigint, uuid, text, text, int, text, text, boolean, double precision[], text, text)
"""


class Migration(migrations.Migration):
    dependencies = [('outreach', '0005_provider_events')]

    operations = [
        migrations.RunSQL((SQL / "gate.sql").read_text(), NO_GATE),
        migrations.RunSQL((SQL / "settle.sql").read_text(), NO_SETTLE),
    ]
