"""Send activities have a place in the field mapping."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('crmsync', '0010_field_mapping'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='fieldmapping',
            name='field_mapping_object_is_known',
        ),
        migrations.AlterField(
            model_name='fieldmapping',
            name='object',
            field=models.CharField(choices=[('Lead', 'Lead'), ('Contact', 'Contact'), ('Account', 'Account'), ('Task', 'Task')], default='Lead', max_length=10),
        ),
        migrations.AddConstraint(
            model_name='fieldmapping',
            constraint=models.CheckConstraint(condition=models.Q(('object__in', ['Lead', 'Contact', 'Account', 'Task'])), name='field_mapping_object_is_known'),
        ),
    ]
