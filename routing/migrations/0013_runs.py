"""Runs of assign_waiting are noted, so that one can be undone."""

from pathlib import Path

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0012_fetch_answered'),
    ]

    operations = [
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('by', models.CharField(max_length=150)),
                ('made_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('undone_at', models.DateTimeField(null=True)),
                ('undone_by', models.CharField(blank=True, db_default='', default='', max_length=150)),
                ('undone', models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict, help_text='How many leads wait again; why others not.')),
                ('team', models.ForeignKey(db_index=False, help_text='Empty: every team.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='routing.team')),
            ],
            options={
                'verbose_name': 'run of assign_waiting',
                'verbose_name_plural': 'runs of assign_waiting',
                'constraints': [models.CheckConstraint(condition=models.Q(('by', ''), _negated=True), name='run_says_who'), models.CheckConstraint(condition=models.Q(models.Q(('undone_at', None), ('undone_by', '')), models.Q(('undone_at__isnull', False), models.Q(('undone_by', ''), _negated=True)), _connector='OR'), name='run_undone_by_iff_undone')],
            },
        ),
        migrations.AddField(
            model_name='assignment',
            name='run',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='assignments', to='routing.run'),
        ),
        migrations.AddIndex(
            model_name='assignment',
            index=models.Index(condition=models.Q(('run__isnull', False)), fields=['run', 'lead'], name='assignment_of_run'),
        ),
        migrations.RunSQL((SQL / "take_turns_in_run.sql").read_text(), migrations.RunSQL.noop),
    ]
