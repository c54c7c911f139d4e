"""Whether leads of known accounts become leads or contacts in the CRM: one choice, shown with the field mapping."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from crmsync.desk.lists import Kept
from crmsync.doctor.contacts import Looked, look_at_contacts
from crmsync.models import AccountLeads


class AccountLeadsForm(forms.ModelForm):
    """The choice; that of contacts after the org was asked whether it would take them, where it answers."""

    looked: Looked | None = None

    class Meta:
        model = AccountLeads
        fields = ("written_as",)
        widgets = {"written_as": forms.RadioSelect}  # noqa: RUF012

    def clean_written_as(self) -> str:
        chosen: str = self.cleaned_data["written_as"]
        if chosen == AccountLeads.Object.CONTACT:
            self.looked = look_at_contacts()
            if self.looked.asked and self.looked.problem:
                raise forms.ValidationError(self.looked.problem)
        return chosen


@admin.register(AccountLeads)
class AccountLeadsAdmin(Kept):
    """One page, reached from the field mapping; who changed it and when is in its history."""

    form = AccountLeadsForm
    list_title = "Field mapping"

    def has_module_permission(self, request: HttpRequest) -> bool:
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_change_permission(request) and not AccountLeads.objects.exists()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return redirect("admin:crmsync_fieldmapping_changelist")

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **more: Any) -> Any:
        """There is one row, whether or not it was written yet."""
        one = {"title": "Leads of accounts", "show_save_and_add_another": False, "show_save_and_continue": False}
        return super().render_change_form(request, context | one, *args, **more)

    def save_model(self, request: HttpRequest, obj: AccountLeads, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if form.looked and not form.looked.asked:
            self.message_user(request, f"Saved, and believed. {form.looked.problem}", messages.WARNING)
