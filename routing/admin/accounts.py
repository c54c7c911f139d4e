"""Accounts: the companies whose leads go to the rep who owns them, known by their e-mail domains."""

import re
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminTextInputWidget
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked
from crmsync.desk.lists import Kept
from crmsync.desk.tabs import Tab, Tabs
from crmsync.doctor.contacts import Looked, look_at_account
from routing.admin.crm_accounts import name_by_website
from routing.free_mail import FREE_MAIL
from routing.models import Account, AccountDomain, Rep
from routing.models.rule import DOMAIN
from routing.normalise import tidy

CRM_ID = re.compile(r"(?<![A-Za-z0-9])001[A-Za-z0-9]{12}(?:[A-Za-z0-9]{3})?(?![A-Za-z0-9])")


class AccountForm(forms.ModelForm):
    """An account; the CRM is asked about a new id, where it answers."""

    looked: Looked | None = None
    crm_id = forms.CharField(
        label="CRM account id",
        max_length=500,
        required=False,
        widget=AdminTextInputWidget,
        help_text="The id of its Account in the CRM, 001…, or the address of its page there. Its new leads can then "
        "be written as contacts under it: see Field mapping. Empty: they are always leads; nothing is guessed.",
    )

    class Meta:
        model = Account
        fields = ("name", "owner", "crm_id")

    def clean_crm_id(self) -> str:
        given = tidy(self.cleaned_data["crm_id"])
        if not given or given == self.initial.get("crm_id"):
            return given
        found = CRM_ID.search(given)
        if found is None:
            raise forms.ValidationError("Paste the Account's id, 001…, 15 or 18 letters, or the address of its page.")
        self.looked = look_at_account(found[0])
        if self.looked.asked and self.looked.problem:
            raise forms.ValidationError(self.looked.problem)
        return self.looked.crm_id


class DomainForm(forms.ModelForm):
    """A domain however it was pasted: with an @ before it, or in capitals."""

    class Meta:
        model = AccountDomain
        fields = ("domain",)

    def clean_domain(self) -> str:
        domain = tidy(self.cleaned_data["domain"]).lower().rpartition("@")[2].removeprefix("www.")
        DOMAIN(domain)
        if domain in FREE_MAIL:
            raise forms.ValidationError(f"{domain} is free mail: anybody may have an address there.")
        return domain


class DomainInline(admin.TabularInline):
    model = AccountDomain
    form = DomainForm
    extra = 1
    verbose_name_plural = "domains (a sub-domain belongs to its domain unless it has an account of its own)"

    def _may(self, request: HttpRequest, obj: Any = None) -> bool:
        """Domains belong to the account: whoever may change it may change them."""
        return bool(request.user.has_perm("routing.add_account" if obj is None else "routing.change_account"))

    has_add_permission = has_change_permission = has_delete_permission = _may

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("routing.view_account")) or self._may(request, obj)


class OwnerTabs(Tabs):
    title = "owner"
    parameter_name = "owner"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("none", "Without an owner", lambda rows: rows.filter(owner=None)),
        Tab("unknown", "Without a CRM id", lambda rows: rows.filter(crm_id="")),
        Tab("left", "Owner has left", lambda rows: rows.exclude(owner__retired_at=None).exclude(owner=None)),
    )


@admin.register(Account)
class AccountAdmin(Kept):
    form = AccountForm
    list_display = ("name", "known_by", "owner", "in_the_crm")
    list_select_related = ("owner",)
    list_filter = (OwnerTabs,)
    fields = ("name", "owner", "crm_id")
    inlines = (DomainInline,)
    actions = ("find_in_the_crm",)
    search_fields = ("name", "domains__domain", "owner__name", "=crm_id")
    search_help_text = "Name of the account, a domain, the name of the owner, or the CRM's id."
    empty_says = "No accounts yet. Add one with its domains and owner: its leads go to the owner, without a turn."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Account]:
        return super().get_queryset(request).prefetch_related("domains")

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = Rep.objects.order_by("name")
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    @admin.display(description="domains")
    def known_by(self, account: Account) -> str:
        return ", ".join(sorted(domain.domain for domain in account.domains.all())) or "none: no lead is found by it"

    @admin.display(description="in the CRM")
    def in_the_crm(self, account: Account) -> SafeString | str:
        return account.crm_id or format_html('<span class="quiet">{}</span>', "not named")

    @admin.action(description="Find in the CRM by website", permissions=["change"])
    def find_in_the_crm(self, request: HttpRequest, queryset: QuerySet[Account]) -> HttpResponse | None:
        return name_by_website(self, Asked(request, queryset))

    def save_model(self, request: HttpRequest, obj: Account, form: Any, change: bool) -> None:
        obj.save(update_fields=form.changed_data or ["name"]) if change else obj.save()
        if form.looked and not form.looked.asked:
            self.message_user(request, f"Saved, and believed. {form.looked.problem}", messages.WARNING)
        elif form.looked:
            self.message_user(request, f"In the CRM the account is called {form.looked.name}.", messages.INFO)
