"""Evidence that a mail went overrules a person who said that it did not, before it leaves again."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).resolve().parent.parent / "sql" / "settle.sql"
DROP = """
DROP FUNCTION IF EXISTS outreach_settle(
    bigint, uuid, text, text, int, text, text, boolean, double precision[], text, text);
"""


class Migration(migrations.Migration):

    dependencies = [("outreach", "0011_keys_in_lower_case")]

    operations = [migrations.RunSQL(DROP + SQL.read_text(), migrations.RunSQL.noop)]
