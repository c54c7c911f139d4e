from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0010_taken_over'),
    ]

    operations = [
        migrations.AddField(
            model_name='account',
            name='crm_id',
            field=models.CharField(blank=True, db_default='', default='', help_text='The id of its Account in the CRM, 001...; empty: its leads are written as leads there.', max_length=18, verbose_name='CRM account id'),
        ),
        migrations.AddConstraint(
            model_name='account',
            constraint=models.CheckConstraint(condition=models.Q(('crm_id', ''), ('crm_id__regex', '^001[A-Za-z0-9]{12}([A-Za-z0-9]{3})?$'), _connector='OR'), name='account_crm_id_is_a_salesforce_account'),
        ),
        migrations.RunSQL((SQL / "rep_periods.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL((SQL / "take_turns.sql").read_text(), migrations.RunSQL.noop),
    ]
