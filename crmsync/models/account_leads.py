"""What leads of known accounts become in the CRM: the one choice that people make for all of them."""

from django.db import models
from django.db.models import Q


class AccountLeads(models.Model):
    """The one row that says it; without a row they are leads, as what any form brings is."""

    class Object(models.TextChoices):
        LEAD = "Lead", "Leads, like all others"
        CONTACT = "Contact", "Contacts under their account"

    id = models.SmallIntegerField(primary_key=True, default=1, editable=False)
    written_as = models.CharField(
        "leads of accounts are written as",
        max_length=10,
        choices=Object,
        default=Object.LEAD,
        db_default=Object.LEAD,
        help_text="A lead belongs to an account by the domain of its e-mail address. It becomes a contact if the "
        "account's page here has the id of an Account that the CRM knows, and if the CRM has no lead or contact with "
        "the address yet: one that it has is updated and stays what it is. The rep becomes the contact's owner. The "
        "choice counts for leads that are written for the first time from now on.",
    )

    class Meta:
        verbose_name = verbose_name_plural = "leads of accounts"
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="account_leads_is_one_row"),
            models.CheckConstraint(
                condition=Q(written_as__in=["Lead", "Contact"]), name="account_leads_are_leads_or_contacts"
            ),
        ]

    def __str__(self) -> str:
        return f"Leads of accounts: {self.get_written_as_display().lower()}"

    @classmethod
    def become_contacts(cls) -> bool:
        """Whether new leads of known accounts are to be contacts there, as of now."""
        return cls.objects.filter(written_as=cls.Object.CONTACT).exists()
