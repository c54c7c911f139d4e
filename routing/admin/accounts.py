"""Accounts: the companies whose leads go to the rep who owns them, known by their e-mail domains."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest

from crmsync.desk.lists import Kept
from crmsync.desk.tabs import Tab, Tabs
from routing.free_mail import FREE_MAIL
from routing.models import Account, AccountDomain, Rep
from routing.models.rule import DOMAIN
from routing.normalise import tidy


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
        Tab("left", "Owner has left", lambda rows: rows.exclude(owner__retired_at=None).exclude(owner=None)),
    )


@admin.register(Account)
class AccountAdmin(Kept):
    list_display = ("name", "known_by", "owner")
    list_select_related = ("owner",)
    list_filter = (OwnerTabs,)
    fields = ("name", "owner")
    inlines = (DomainInline,)
    search_fields = ("name", "domains__domain", "owner__name")
    search_help_text = "Name of the account, a domain, or the name of the owner."
    empty_says = "No accounts yet. Add one with its domains and owner: its leads go to the owner, without a turn."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Account]:
        return super().get_queryset(request).prefetch_related("domains")

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = Rep.objects.order_by("name")
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    @admin.display(description="domains")
    def known_by(self, account: Account) -> str:
        return ", ".join(sorted(domain.domain for domain in account.domains.all())) or "none: no lead is found by it"

    def save_model(self, request: HttpRequest, obj: Account, form: ModelForm, change: bool) -> None:
        obj.save(update_fields=form.changed_data or ["name"]) if change else obj.save()
