"""Answers of senders' APIs are forgotten after a while; an index finds those that are kept."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('routing', '0011_account_crm_id'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='fetch',
            index=models.Index(condition=models.Q(('answer__isnull', False)), fields=['event'], name='fetch_answered'),
        ),
    ]
