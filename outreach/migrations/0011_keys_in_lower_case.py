"""Addresses are compared in lower case, no longer folded: who said no under a folded key has said so under the new one.

straße@ had the key of strasse@. Whether both, or only one of them, wanted no more mail cannot be told any more.
"""

from django.db import migrations, models
from django.db.models import Q
from email_validator import EmailNotValidError, validate_email


def suppress_under_the_new_key(apps, schema_editor):
    Enrolment, Recipient = apps.get_model("outreach", "Enrolment"), apps.get_model("outreach", "Recipient")
    Suppression = apps.get_model("outreach", "Suppression")
    current = Suppression.objects.filter(lifted_at=None).select_related("recipient")
    of = {suppression.recipient_id: suppression for suppression in current.iterator()}
    folded = Enrolment.objects.filter(Q(address__regex=r"[^\x01-\x7f]") | Q(address__icontains="xn--"))
    for address, recipient_id in folded.values_list("address", "recipient_id").distinct().iterator():
        said, key = of.get(recipient_id), key_of(address)
        if said is None or key in ("", said.recipient.key):
            continue
        recipient, _ = Recipient.objects.get_or_create(key=key)
        if not Suppression.objects.filter(recipient=recipient, lifted_at=None).exists():
            Suppression.objects.create(recipient=recipient, reason=said.reason, detail=said.detail)


def key_of(address):
    try:
        checked = validate_email(address, check_deliverability=False, strict=True, test_environment=True)
    except EmailNotValidError:
        return ""
    return f"{checked.local_part.lower()}@{checked.domain.lower()}"


class Migration(migrations.Migration):

    dependencies = [("outreach", "0010_quick_checks")]

    operations = [
        migrations.AlterField(
            model_name="recipient",
            name="key",
            field=models.CharField(help_text="Normalised and in lower case: one person, one key.", max_length=320),
        ),
        migrations.RunPython(suppress_under_the_new_key, migrations.RunPython.noop, elidable=True),
    ]
