"""Mass chunks are made ready ahead, begin by rank, and leave their place when they are answered."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('crmsync', '0013_piles_of_mass_updates'),
    ]

    operations = [
        migrations.AddField(
            model_name='claim',
            name='rank',
            field=models.IntegerField(db_default=0, help_text='Of the mass chunks that are ready, the one with the highest begins first.'),
        ),
        migrations.AddField(
            model_name='claim',
            name='answered_at',
            field=models.DateTimeField(help_text='The CRM has answered: no call is under way any more.', null=True),
        ),
        migrations.AddConstraint(
            model_name='claim',
            constraint=models.CheckConstraint(condition=models.Q(('answered_at__isnull', True), ('begun_at__isnull', False), _connector='OR'), name='claim_answered_only_if_begun'),
        ),
    ]
