"""One call that settles a mail and passes the gate for the next."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql" / "settle_then_gate.sql"


class Migration(migrations.Migration):

    dependencies = [("outreach", "0008_activities")]

    operations = [migrations.RunSQL(SQL.read_text(), "DROP FUNCTION outreach_settle_then_gate")]
