"""Every record that Rota keeps in the CRM."""

from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.lookups import Exact


def json_type(column: str) -> Func:
    return Func(F(column), function="jsonb_typeof", output_field=models.TextField())


NO_PARENTS = Value([], models.JSONField())


class CrmRecord(models.Model):
    """One record of the CRM under Rota's own external id. Its row is locked while a version is drawn."""

    object = models.TextField(help_text="The CRM's object name, such as Lead.")
    external_id = models.TextField(
        help_text="Rota's key of the record; the same before and after it exists in the CRM."
    )
    version = models.BigIntegerField(db_default=0, help_text="The last version drawn.")
    crm_id = models.TextField(null=True, help_text="The CRM's own id, once it told us.")  # noqa: DJ001 - null: not known
    delivered_version = models.BigIntegerField(
        null=True, help_text="The newest version that the CRM confirmed; null: it has no such record that we know of."
    )
    parents = models.JSONField(
        db_default=NO_PARENTS,
        help_text="Parents the CRM last confirmed; of a contact yet to be created, the account it is to be under.",
    )
    owner = models.TextField(db_default="", help_text="The owner the CRM last confirmed; another one there is foreign.")
    looked_up_at = models.DateTimeField(null=True, help_text="When the CRM was asked for the person behind it.")
    written_as = models.TextField(db_default="", help_text="The object it is in the CRM, where not `object`.")
    no_contact_because = models.TextField(
        db_default="", help_text="Why it is no contact of its account, where people want leads of accounts to be that."
    )
    found_owner = models.TextField(
        db_default="",
        help_text="Who owned it in the CRM before Rota first wrote it: that write leaves the owner alone.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["object", "external_id"], name="crm_record_once"),
            models.CheckConstraint(
                condition=Q(written_as="") | (Q(object="Lead") & Q(written_as="Contact")),
                name="crm_record_only_a_lead_is_a_contact",
            ),
            models.CheckConstraint(
                condition=Q(found_owner="") | Q(crm_id__isnull=False), name="crm_record_adopted_has_its_id"
            ),
            models.CheckConstraint(
                condition=Q(written_as="") | Q(crm_id__isnull=False) | ~Q(Exact(F("parents"), NO_PARENTS)),
                name="crm_record_contact_has_an_id_or_an_account",
            ),
            models.CheckConstraint(
                condition=~Q(object="") & ~Q(external_id__in=["", ".", ".."]), name="crm_record_has_a_sendable_key"
            ),
            models.CheckConstraint(
                condition=Q(delivered_version__isnull=True) | Q(delivered_version__lte=F("version")),
                name="crm_record_delivered_not_ahead_of_drawn",
            ),
            models.CheckConstraint(
                condition=Q(Exact(json_type("parents"), Value("array"))), name="crm_record_parents_are_a_list"
            ),
        ]
        indexes = [
            # lockpolicy: a parent given by its CRM id takes the lane of the record we know under it
            models.Index(fields=["object", "crm_id"], name="crm_record_by_crm_id", condition=Q(crm_id__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.object} {self.external_id}"

    @property
    def is_a(self) -> str:
        """What it is in the CRM: a lead may be a contact there."""
        return str(self.written_as or self.object)
