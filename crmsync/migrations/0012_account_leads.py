import django.db.models.lookups
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('crmsync', '0011_task_mapping'),
    ]

    operations = [
        migrations.CreateModel(
            name='AccountLeads',
            fields=[
                ('id', models.SmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ('written_as', models.CharField(choices=[('Lead', 'Leads, like all others'), ('Contact', 'Contacts under their account')], db_default='Lead', default='Lead', help_text="A lead belongs to an account by the domain of its e-mail address. It becomes a contact if the account's page here has the id of an Account that the CRM knows, and if the CRM has no lead or contact with the address yet: one that it has is updated and stays what it is. The rep becomes the contact's owner. The choice counts for leads that are written for the first time from now on.", max_length=10, verbose_name='leads of accounts are written as')),
            ],
            options={
                'verbose_name': 'leads of accounts',
                'verbose_name_plural': 'leads of accounts',
            },
        ),
        migrations.RemoveConstraint(
            model_name='crmrecord',
            name='crm_record_adopted_has_its_id',
        ),
        migrations.AddField(
            model_name='crmrecord',
            name='no_contact_because',
            field=models.TextField(db_default='', help_text='Why it is no contact of its account, where people want leads of accounts to be that.'),
        ),
        migrations.AlterField(
            model_name='crmrecord',
            name='parents',
            field=models.JSONField(db_default=models.Value([], models.JSONField()), help_text='Parents the CRM last confirmed; of a contact yet to be created, the account it is to be under.'),
        ),
        migrations.AddConstraint(
            model_name='crmrecord',
            constraint=models.CheckConstraint(condition=models.Q(('found_owner', ''), ('crm_id__isnull', False), _connector='OR'), name='crm_record_adopted_has_its_id'),
        ),
        migrations.AddConstraint(
            model_name='crmrecord',
            constraint=models.CheckConstraint(condition=models.Q(('written_as', ''), ('crm_id__isnull', False), models.Q(django.db.models.lookups.Exact(models.F('parents'), models.Value([], models.JSONField())), _negated=True), _connector='OR'), name='crm_record_contact_has_an_id_or_an_account'),
        ),
        migrations.AddConstraint(
            model_name='accountleads',
            constraint=models.CheckConstraint(condition=models.Q(('id', 1)), name='account_leads_is_one_row'),
        ),
        migrations.AddConstraint(
            model_name='accountleads',
            constraint=models.CheckConstraint(condition=models.Q(('written_as__in', ['Lead', 'Contact'])), name='account_leads_are_leads_or_contacts'),
        ),
    ]
