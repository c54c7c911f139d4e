"""The sending window may be kept in the lead's time zone, which is frozen when it is enrolled."""

from pathlib import Path

from django.db import migrations, models

import outreach.models.conditions

GATE = Path(__file__).resolve().parent.parent / "sql" / "gate.sql"
ANEW = "DROP FUNCTION IF EXISTS outreach_gate(uuid, bigint, int, text, text, text, text);\n"

class Migration(migrations.Migration):

    dependencies = [
        ('outreach', "0012_overruled"),
        ('routing', '0013_runs'),
    ]

    operations = [
        migrations.AddField(
            model_name='campaign',
            name='window_in',
            field=models.CharField(choices=[('campaign', "The campaign's time zone"), ('lead', "The lead's time zone, where its country has one")], db_default='campaign', default='campaign', help_text="A lead whose country has several time zones, or is not known, is mailed by the campaign's.", max_length=8, verbose_name='window in'),
        ),
        migrations.AddField(
            model_name='enrolment',
            name='zone',
            field=models.CharField(editable=False, help_text="The lead's; empty: the campaign's.", max_length=64, null=True, verbose_name='time zone'),
        ),
        migrations.AddConstraint(
            model_name='campaign',
            constraint=models.CheckConstraint(condition=outreach.models.conditions.Among('window_in', ['campaign', 'lead']), name='campaign_window_in_is_known'),
        ),
        migrations.AddConstraint(
            model_name='enrolment',
            constraint=models.CheckConstraint(condition=models.Q(('zone', None), models.Q(('zone', ''), _negated=True), _connector='OR'), name='enrolment_zone_has_a_name'),
        ),
        migrations.RunSQL(ANEW + GATE.read_text(), migrations.RunSQL.noop),
    ]
