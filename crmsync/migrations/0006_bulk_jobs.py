"""The journal of bulk jobs, and the pauses of mass updates and of bulk jobs."""


import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('crmsync', '0005_planner'),
    ]

    operations = [
        migrations.CreateModel(
            name='BulkJob',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('road', models.TextField(choices=[('bulk2', 'Bulk API 2.0'), ('bulk1', 'Bulk API 1.0, serial')])),
                ('object', models.TextField()),
                ('operation', models.TextField()),
                ('rows', models.IntegerField(help_text='Rows sent; each must come back with an outcome.')),
                ('status', models.TextField(choices=[('planned', 'Planned'), ('created', 'Created'), ('uploaded', 'Uploaded'), ('closed', 'Closed'), ('polling', 'Polling'), ('harvested', 'Harvested'), ('aborted', 'Aborted')], db_default='planned')),
                ('org_id', models.TextField(db_default='', help_text="The org's id of the job.")),
                ('batch_id', models.TextField(db_default='', help_text="Bulk API 1.0: the org's id of its only batch.")),
                ('worker', models.TextField(help_text='Who took the last step.')),
                ('holder', models.UUIDField(help_text='Who takes the present step.', null=True)),
                ('held_until', models.DateTimeField(null=True)),
                ('look_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='When the next step is due.')),
                ('looks', models.IntegerField(db_default=0, help_text='Looks since the last step.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ended_at', models.DateTimeField(null=True)),
                ('org_state', models.TextField(db_default='', help_text='What the org last called its state.')),
                ('processed', models.IntegerField(db_default=0)),
                ('failed', models.IntegerField(db_default=0)),
                ('retries', models.IntegerField(db_default=0, help_text='How often the org put a batch of it back, mostly for locks.')),
                ('reads', models.SmallIntegerField(db_default=0, help_text='Times its results were read and did not add up.')),
                ('message', models.TextField(db_default='', help_text='What was last said about it as a whole.')),
                ('maybe_orphaned', models.BooleanField(db_default=False, help_text='Nobody knows whether the org made it; an open job nobody recorded is sought.')),
            ],
        ),
        migrations.AddField(
            model_name='orgstate',
            name='bulk_paused_reason',
            field=models.TextField(db_default=''),
        ),
        migrations.AddField(
            model_name='orgstate',
            name='bulk_paused_until',
            field=models.DateTimeField(help_text='No bulk jobs; mass updates go by Collections.', null=True),
        ),
        migrations.AddField(
            model_name='orgstate',
            name='mass_paused_reason',
            field=models.TextField(db_default=''),
        ),
        migrations.AddField(
            model_name='orgstate',
            name='mass_paused_until',
            field=models.DateTimeField(help_text='Mass updates wait; what people wait for goes on.', null=True),
        ),
        migrations.AddConstraint(
            model_name='orgstate',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('mass_paused_reason', ''), ('mass_paused_until__isnull', True)), models.Q(('mass_paused_until__isnull', False), models.Q(('mass_paused_reason', ''), _negated=True)), _connector='OR'), name='org_state_mass_reason_iff_paused'),
        ),
        migrations.AddConstraint(
            model_name='orgstate',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('bulk_paused_reason', ''), ('bulk_paused_until__isnull', True)), models.Q(('bulk_paused_until__isnull', False), models.Q(('bulk_paused_reason', ''), _negated=True)), _connector='OR'), name='org_state_bulk_reason_iff_paused'),
        ),
        migrations.AddField(
            model_name='bulkjob',
            name='claim',
            field=models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='job', to='crmsync.claim'),
        ),
        migrations.AddIndex(
            model_name='bulkjob',
            index=models.Index(condition=models.Q(('status__in', ['harvested', 'aborted']), _negated=True), fields=['look_at'], name='bulk_job_unfinished'),
        ),
        migrations.AddIndex(
            model_name='bulkjob',
            index=models.Index(condition=models.Q(('maybe_orphaned', True)), fields=['created_at'], name='bulk_job_maybe_orphaned'),
        ),
        migrations.AddConstraint(
            model_name='bulkjob',
            constraint=models.UniqueConstraint(condition=models.Q(('org_id', ''), _negated=True), fields=('org_id',), name='bulk_job_once_per_org_id'),
        ),
        migrations.AddConstraint(
            model_name='bulkjob',
            constraint=models.CheckConstraint(condition=models.Q(('road__in', ['bulk2', 'bulk1'])), name='bulk_job_road_is_bulk'),
        ),
        migrations.AddConstraint(
            model_name='bulkjob',
            constraint=models.CheckConstraint(condition=models.Q(('operation__in', ['upsert', 'update', 'delete'])), name='bulk_job_operation_known'),
        ),
        migrations.AddConstraint(
            model_name='bulkjob',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['planned', 'created', 'uploaded', 'closed', 'polling', 'harvested', 'aborted'])), name='bulk_job_status_known'),
        ),
        migrations.AddConstraint(
            model_name='bulkjob',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['planned', 'aborted']), models.Q(('org_id', ''), _negated=True), _connector='OR'), name='bulk_job_created_has_org_id'),
        ),
        migrations.AddConstraint(
            model_name='bulkjob',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', False), ('status__in', ['harvested', 'aborted'])), models.Q(models.Q(('status__in', ['harvested', 'aborted']), _negated=True), ('ended_at__isnull', True)), _connector='OR'), name='bulk_job_ended_at_iff_ended'),
        ),
        migrations.AddConstraint(
            model_name='bulkjob',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('held_until__isnull', True), ('holder__isnull', True)), models.Q(('held_until__isnull', False), ('holder__isnull', False)), _connector='OR'), name='bulk_job_held_until_iff_held'),
        ),
        migrations.AddConstraint(
            model_name='bulkjob',
            constraint=models.CheckConstraint(condition=models.Q(('rows__gte', 1)), name='bulk_job_has_rows'),
        ),
    ]
