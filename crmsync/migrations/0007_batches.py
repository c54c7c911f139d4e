"""Mass updates, operations, and the merging of a deletion with what comes before and after it."""

from pathlib import Path

import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.lookups
from django.db import migrations, models


SQL = Path(__file__).resolve().parent.parent / "sql"


class Migration(migrations.Migration):

    dependencies = [
        ('crmsync', '0006_bulk_jobs'),
    ]

    operations = [
        migrations.CreateModel(
            name='Batch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('object', models.TextField(help_text="The CRM's object name, such as Contact.")),
                ('operation', models.TextField(choices=[('upsert', 'Upsert'), ('update', 'Update'), ('delete', 'Delete')], db_default='upsert')),
                ('status', models.TextField(choices=[('offered', 'Offered'), ('loading', 'Loading'), ('queued', 'Queued'), ('cancelled', 'Cancelled')], db_default='loading')),
                ('file_name', models.TextField()),
                ('digest', models.TextField(help_text='SHA-256 of the file, by which the same file is known again.')),
                ('columns', models.JSONField(help_text="The file's header.")),
                ('encoding', models.TextField(db_default='', help_text='As the person said it; empty: found out from the file.')),
                ('again', models.IntegerField(db_default=0, help_text='How many times the same file was pushed before, on purpose.')),
                ('plan', models.JSONField(help_text='What a dry run said when it was uploaded.', null=True)),
                ('rows_total', models.IntegerField(help_text='Rows of the file, without its header.')),
                ('rows_queued', models.IntegerField(db_default=0, help_text='Rows that are in the outbox; loading goes on from here.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('created_by', models.TextField()),
                ('queued_at', models.DateTimeField(null=True)),
                ('settled_at', models.DateTimeField(help_text='When the last of its rows was seen to have an outcome.', null=True)),
                ('paused_at', models.DateTimeField(null=True)),
                ('paused_by', models.TextField(db_default='')),
                ('cancelled_at', models.DateTimeField(null=True)),
                ('cancelled_by', models.TextField(db_default='')),
                ('reason', models.TextField(db_default='', help_text='Why it was paused or cancelled.')),
            ],
            options={
                'verbose_name': 'mass update',
            },
        ),
        migrations.CreateModel(
            name='BatchPart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.IntegerField()),
                ('content', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='Intervention',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.TextField(choices=[('held', 'Lane held'), ('released', 'Lane released'), ('stopped', 'Org stopped'), ('resumed', 'Org resumed'), ('retried', 'Sent again'), ('batch_paused', 'Mass update paused'), ('batch_resumed', 'Mass update resumed'), ('batch_cancelled', 'Mass update cancelled')])),
                ('about', models.TextField(db_default='', help_text='The lock key, the filter or the mass update it was done to.')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('by', models.TextField()),
                ('reason', models.TextField(db_default='')),
                ('until', models.DateTimeField(help_text='How long a lane is held.', null=True)),
                ('count', models.IntegerField(help_text='How many messages it was about.', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Pruning',
            fields=[
                ('id', models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('after', models.BigIntegerField(db_default=0, help_text='The last message looked at.')),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='outboxmessage',
            name='outbox_status_known',
        ),
        migrations.AddField(
            model_name='lane',
            name='held_by',
            field=models.TextField(db_default=''),
        ),
        migrations.AddField(
            model_name='lane',
            name='held_reason',
            field=models.TextField(db_default=''),
        ),
        migrations.AddField(
            model_name='lane',
            name='held_until',
            field=models.DateTimeField(help_text='A person keeps it closed until then.', null=True),
        ),
        migrations.AddField(
            model_name='orgstate',
            name='stopped_at',
            field=models.DateTimeField(help_text='A person stopped it; nothing is begun until one resumes.', null=True),
        ),
        migrations.AddField(
            model_name='orgstate',
            name='stopped_by',
            field=models.TextField(db_default=''),
        ),
        migrations.AddField(
            model_name='orgstate',
            name='stopped_reason',
            field=models.TextField(db_default=''),
        ),
        migrations.AddField(
            model_name='outboxmessage',
            name='afterwards',
            field=models.TextField(help_text='Of a deletion that took in a later write: what is sent, with these fields, after it.', null=True),
        ),
        migrations.AddField(
            model_name='outboxmessage',
            name='line',
            field=models.IntegerField(help_text="Where the row begins in the mass update's file; 1 is its first line.", null=True),
        ),
        migrations.AddField(
            model_name='outboxmessage',
            name='operation',
            field=models.TextField(choices=[('upsert', 'Upsert'), ('update', 'Update'), ('delete', 'Delete')], db_default='upsert', help_text='What is sent next.'),
        ),
        migrations.AlterField(
            model_name='crmrecord',
            name='delivered_version',
            field=models.BigIntegerField(help_text='The newest version that the CRM confirmed; null: it has no such record that we know of.', null=True),
        ),
        migrations.AlterField(
            model_name='outboxmessage',
            name='fields',
            field=models.JSONField(help_text="Rota's field names. Null empties the field in the CRM; absent leaves it alone. A name of the org that Rota has none for begins with 'org:'."),
        ),
        migrations.AlterField(
            model_name='outboxmessage',
            name='status',
            field=models.TextField(choices=[('pending', 'Pending'), ('claimed', 'Claimed'), ('delivered', 'Delivered'), ('dead', 'Dead'), ('superseded', 'Superseded'), ('retried', 'Retried'), ('cancelled', 'Cancelled')], db_default='pending'),
        ),
        migrations.AddConstraint(
            model_name='lane',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('held_by', ''), ('held_until__isnull', True)), models.Q(('held_until__isnull', False), models.Q(('held_by', ''), _negated=True)), _connector='OR'), name='lane_held_by_iff_held'),
        ),
        migrations.AddConstraint(
            model_name='lane',
            constraint=models.CheckConstraint(condition=models.Q(('held_until__isnull', True), ('claim__isnull', False), models.Q(('held_until__isnull', False), ('not_before__gte', models.F('held_until'))), _connector='OR'), name='lane_hold_keeps_it_closed'),
        ),
        migrations.AddConstraint(
            model_name='orgstate',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('stopped_at__isnull', True), ('stopped_by', '')), models.Q(('stopped_at__isnull', False), models.Q(('stopped_by', ''), _negated=True)), _connector='OR'), name='org_state_stopped_by_iff_stopped'),
        ),
        migrations.AddConstraint(
            model_name='batch',
            constraint=models.UniqueConstraint(condition=models.Q(('status__in', ['loading', 'queued'])), fields=('digest', 'object', 'operation', 'again'), name='batch_once_per_file'),
        ),
        migrations.AddConstraint(
            model_name='batch',
            constraint=models.CheckConstraint(condition=models.Q(('again__gte', 0)), name='batch_again_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='batch',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['offered', 'loading', 'queued', 'cancelled'])), name='batch_status_known'),
        ),
        migrations.AddConstraint(
            model_name='batch',
            constraint=models.CheckConstraint(condition=models.Q(('operation__in', ['upsert', 'update', 'delete'])), name='batch_operation_known'),
        ),
        migrations.AddConstraint(
            model_name='batch',
            constraint=models.CheckConstraint(condition=models.Q(('rows_queued__gte', 0), ('rows_queued__lte', models.F('rows_total'))), name='batch_queues_no_more_than_its_file'),
        ),
        migrations.AddConstraint(
            model_name='batch',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'queued'), _negated=True), models.Q(('queued_at__isnull', False), ('rows_queued', models.F('rows_total'))), _connector='OR'), name='batch_queued_means_every_row'),
        ),
        migrations.AddConstraint(
            model_name='batch',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('paused_at__isnull', True), ('paused_by', '')), models.Q(('paused_at__isnull', False), models.Q(('paused_by', ''), _negated=True)), _connector='OR'), name='batch_paused_by_iff_paused'),
        ),
        migrations.AddConstraint(
            model_name='batch',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('cancelled_at__isnull', False), ('status', 'cancelled'), models.Q(('cancelled_by', ''), _negated=True)), models.Q(models.Q(('status', 'cancelled'), _negated=True), ('cancelled_at__isnull', True), ('cancelled_by', '')), _connector='OR'), name='batch_cancelled_by_iff_cancelled'),
        ),
        migrations.AddField(
            model_name='outboxmessage',
            name='batch',
            field=models.ForeignKey(db_index=False, help_text='The mass update that wrote this version.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='messages', to='crmsync.batch'),
        ),
        migrations.AddConstraint(
            model_name='outboxmessage',
            constraint=models.UniqueConstraint(condition=models.Q(('batch__isnull', False)), fields=('batch', 'line'), include=('status',), name='outbox_once_per_line_of_a_batch'),
        ),
        migrations.AddConstraint(
            model_name='outboxmessage',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['pending', 'claimed', 'delivered', 'dead', 'superseded', 'retried', 'cancelled'])), name='outbox_status_known'),
        ),
        migrations.AddConstraint(
            model_name='outboxmessage',
            constraint=models.CheckConstraint(condition=models.Q(('operation__in', ['upsert', 'update', 'delete'])), name='outbox_operation_known'),
        ),
        migrations.AddConstraint(
            model_name='outboxmessage',
            constraint=models.CheckConstraint(condition=models.Q(('afterwards__isnull', True), models.Q(('afterwards__in', ['upsert', 'update']), ('afterwards__isnull', False), ('operation', 'delete')), _connector='OR'), name='outbox_afterwards_follows_a_deletion'),
        ),
        migrations.AddConstraint(
            model_name='outboxmessage',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('operation', 'delete'), _negated=True), ('afterwards__isnull', False), models.Q(django.db.models.lookups.Exact(models.F('fields'), models.Value({}, models.JSONField())), django.db.models.lookups.Exact(models.F('parents'), models.Value([], models.JSONField()))), _connector='OR'), name='outbox_deletion_writes_nothing'),
        ),
        migrations.AddConstraint(
            model_name='outboxmessage',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('batch__isnull', True), ('line__isnull', True)), models.Q(('batch__isnull', False), ('line__gte', 1), ('line__isnull', False)), _connector='OR'), name='outbox_line_iff_of_a_batch'),
        ),
        migrations.AddConstraint(
            model_name='outboxmessage',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'cancelled'), _negated=True), ('batch__isnull', False), _connector='OR'), name='outbox_only_mass_updates_are_cancelled'),
        ),
        migrations.AddField(
            model_name='batchpart',
            name='batch',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='crmsync.batch'),
        ),
        migrations.AddIndex(
            model_name='intervention',
            index=models.Index(fields=['about', '-at'], name='intervention_about'),
        ),
        migrations.AddConstraint(
            model_name='intervention',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['held', 'released', 'stopped', 'resumed', 'retried', 'batch_paused', 'batch_resumed', 'batch_cancelled'])), name='intervention_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='intervention',
            constraint=models.CheckConstraint(condition=models.Q(('by', ''), _negated=True), name='intervention_says_who'),
        ),
        migrations.AddConstraint(
            model_name='intervention',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('kind', 'held'), _negated=True), ('until__isnull', False), _connector='OR'), name='intervention_hold_says_until_when'),
        ),
        migrations.AddConstraint(
            model_name='pruning',
            constraint=models.CheckConstraint(condition=models.Q(('id', 1)), name='pruning_is_one_row'),
        ),
        migrations.AddConstraint(
            model_name='batchpart',
            constraint=models.UniqueConstraint(fields=('batch', 'number'), name='batch_part_once'),
        ),
        migrations.AddConstraint(
            model_name='batchpart',
            constraint=models.CheckConstraint(condition=models.Q(('number__gte', 0)), name='batch_part_counts_from_zero'),
        ),
        migrations.RunSQL((SQL / "outbox_merge_operations.sql").read_text(), migrations.RunSQL.noop),
        migrations.RunSQL((SQL / "outbox_enqueue.sql").read_text(), migrations.RunSQL.noop),
    ]
