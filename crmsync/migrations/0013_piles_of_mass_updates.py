"""Each mass update has piles of its own; what is piled already is planned anew."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('crmsync', '0012_account_leads'),
    ]

    operations = [
        migrations.RunSQL(
            "UPDATE crmsync_outboxmessage SET pile = NULL WHERE pile IS NOT NULL; DELETE FROM crmsync_pile",
            migrations.RunSQL.noop,
        ),
        migrations.RemoveIndex(
            model_name='outboxmessage',
            name='outbox_unplanned',
        ),
        migrations.RemoveIndex(
            model_name='pile',
            name='pile_longest',
        ),
        migrations.RemoveIndex(
            model_name='pile',
            name='pile_that_fits',
        ),
        migrations.RemoveIndex(
            model_name='pile',
            name='pile_left_longest',
        ),
        migrations.AddField(
            model_name='pile',
            name='batch',
            field=models.BigIntegerField(db_default=0, help_text='The mass update whose rows they are; 0: of none.'),
        ),
        migrations.AddIndex(
            model_name='outboxmessage',
            index=models.Index(condition=models.Q(('pile__isnull', True), ('priority', 1), ('status', 'pending')), fields=['batch', 'id'], name='outbox_unplanned'),
        ),
        migrations.AddIndex(
            model_name='pile',
            index=models.Index(condition=models.Q(('waiting__gt', 0)), fields=['batch', '-waiting'], name='pile_longest'),
        ),
        migrations.AddIndex(
            model_name='pile',
            index=models.Index(condition=models.Q(('waiting__gt', 0)), fields=['batch', 'object', 'operation', '-waiting'], name='pile_that_fits'),
        ),
        migrations.AddIndex(
            model_name='pile',
            index=models.Index(condition=models.Q(('waiting__gt', 0)), fields=['batch', 'since_at'], name='pile_left_longest'),
        ),
    ]
