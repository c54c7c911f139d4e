"""Where an org wants a field that is not in the usual place: rows that people keep, above the table of mapping.py."""

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower

API_NAME = RegexValidator(
    r"^[A-Za-z][A-Za-z0-9_]{0,79}$", "Write the field's API name, such as Budget__c: letters, digits and underscores."
)


class FieldMapping(models.Model):
    """One field of an object: Rota's name of it, and the org's; no name there: it is not sent."""

    class Object(models.TextChoices):
        LEAD = "Lead"
        CONTACT = "Contact"
        ACCOUNT = "Account"
        TASK = "Task"

    object = models.CharField(max_length=10, choices=Object, default=Object.LEAD)
    ours = models.CharField(
        "Rota's field", max_length=100, help_text="As it stands in a lead's fields: email, company, utm_source …"
    )
    theirs = models.CharField(
        "field in the CRM",
        max_length=80,
        blank=True,
        default="",
        db_default="",
        validators=[API_NAME],
        help_text="Its API name there, such as Budget__c; empty: it is not sent.",
    )
    kind = models.CharField(max_length=30, blank=True, default="", db_default="", editable=False)
    length = models.PositiveIntegerField(null=True, blank=True, editable=False)
    checked_at = models.DateTimeField(null=True, blank=True, editable=False)
    problem = models.CharField(max_length=300, blank=True, default="", db_default="", editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["object", "ours"], name="field_mapping_once"),
            models.UniqueConstraint(
                "object", Lower("theirs"), condition=~Q(theirs=""), name="field_mapping_one_source_per_field"
            ),
            models.CheckConstraint(condition=~Q(ours=""), name="field_mapping_names_a_field"),
            models.CheckConstraint(
                condition=Q(object__in=["Lead", "Contact", "Account", "Task"]), name="field_mapping_object_is_known"
            ),
            models.CheckConstraint(
                condition=Q(theirs="") | Q(theirs__regex=r"^[A-Za-z][A-Za-z0-9_]*$"),
                name="field_mapping_is_an_api_name",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.object}: {self.ours} → {self.theirs or 'not sent'}"
