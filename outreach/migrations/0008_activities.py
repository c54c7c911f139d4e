"""Sent mails are logged in the CRM as completed tasks, where a campaign says so."""

from pathlib import Path

from django.db import migrations, models

SQL = Path(__file__).resolve().parent.parent / "sql"
FUNCTIONS = """
DROP FUNCTION IF EXISTS outreach_gate(uuid, bigint, int, text, text, text);
DROP FUNCTION IF EXISTS outreach_gate(uuid, bigint, int, text, text, text, text);
DROP FUNCTION IF EXISTS outreach_settle(
    bigint, uuid, text, text, int, text, text, boolean, double precision[], text, text);
"""
NAMES = ("gate.sql", "settle.sql", "log_activity.sql")


class Migration(migrations.Migration):

    dependencies = [
        ('outreach', '0007_notices'),
        ('crmsync', '0011_task_mapping'),
    ]

    operations = [
        migrations.AddField(
            model_name='campaign',
            name='logs_activities',
            field=models.BooleanField(db_default=False, default=False, help_text="Each mail that was sent becomes a completed task of the lead there. Tasks need Rota's key field on Activity (crm_doctor looks), and take 2 KB of the org's storage each.", verbose_name='log its mails in the CRM'),
        ),
        migrations.AddField(
            model_name='sendattempt',
            name='activity_owed',
            field=models.BooleanField(db_default=False, default=False, help_text='The CRM is to be told of it once the lead has a rep.'),
        ),
        migrations.AddField(
            model_name='sendattempt',
            name='subject',
            field=models.CharField(blank=True, db_default='', default='', help_text='Kept where the CRM is told of the mail.', max_length=500),
        ),
        migrations.AddIndex(
            model_name='sendattempt',
            index=models.Index(condition=models.Q(('activity_owed', True)), fields=['id'], name='send_attempt_activity_owed'),
        ),
        migrations.AddConstraint(
            model_name='sendattempt',
            constraint=models.CheckConstraint(condition=models.Q(('activity_owed', False), ('status', 'accepted'), _connector='OR'), name='send_attempt_owes_task_if_accepted'),
        ),
        migrations.RunSQL(FUNCTIONS + "".join((SQL / name).read_text() for name in NAMES), "DROP FUNCTION outreach_log_activity(bigint)"),
    ]
