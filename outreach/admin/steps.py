"""The mails of a campaign as they are written: after how many days, with which subject, saying what."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget
from django.http import HttpRequest

from outreach.errors import BadTemplate
from outreach.mail.templating import compile_text
from outreach.models import Campaign, Step

DAY_H = 24
KNOWS = "{{ lead.first_name|default:'there' }}, lead.company, lead.fields.NAME, rep.name, campaign.name. Nothing else."


class StepForm(forms.ModelForm):
    """One mail. Its delay is asked for in days and hours; templates are read while they can still be changed."""

    days = forms.IntegerField(min_value=0, max_value=365, initial=0, label="After days")
    hours = forms.IntegerField(min_value=0, max_value=DAY_H - 1, initial=0, label="and hours")

    class Meta:
        model = Step
        fields = ("order", "subject", "body")
        widgets = {  # noqa: RUF012 - as Django has it
            "subject": AdminTextInputWidget(attrs={"class": "vLargeTextField"}),
            "body": AdminTextareaWidget(attrs={"rows": 8}),
        }
        help_texts = {"body": f"Plain text. It knows {KNOWS}"}  # noqa: RUF012

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            delay = self.instance.delay
            self.initial.update(days=delay.days, hours=delay.seconds // 3_600)

    def clean_subject(self) -> str:
        return self._read("subject")

    def clean_body(self) -> str:
        return self._read("body")

    def _read(self, name: str) -> str:
        text = str(self.cleaned_data[name])
        try:
            compile_text(text)
        except BadTemplate as fault:
            raise forms.ValidationError(str(fault)) from fault
        return text

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        if given.get("days") is not None and given.get("hours") is not None:
            self.instance.delay = timedelta(days=given["days"], hours=given["hours"])
        return given


class StepInline(admin.StackedInline):
    """The steps on the campaign's page: a form while it is a draft, to read once it is launched."""

    model = Step
    form = StepForm
    extra = 0
    min_num = 1
    ordering = ("order",)
    verbose_name_plural = "Mails"

    def get_fields(self, request: HttpRequest, obj: Campaign | None = None) -> tuple[str, ...]:
        if self.has_change_permission(request, obj):
            return ("order", "days", "hours", "subject", "body")
        return ("order", "delay", "subject", "body")

    def has_add_permission(self, request: HttpRequest, obj: Campaign | None = None) -> bool:
        return is_draft(obj) and writes(request)

    def has_change_permission(self, request: HttpRequest, obj: Campaign | None = None) -> bool:
        return is_draft(obj) and writes(request)

    def has_delete_permission(self, request: HttpRequest, obj: Campaign | None = None) -> bool:
        return is_draft(obj) and writes(request)

    def has_view_permission(self, request: HttpRequest, obj: Campaign | None = None) -> bool:
        return request.user.has_perm("outreach.view_campaign") or writes(request)


def writes(request: HttpRequest) -> bool:
    """Who may write campaigns may write their mails."""
    return request.user.has_perm("outreach.change_campaign") or request.user.has_perm("outreach.add_campaign")


def is_draft(campaign: Campaign | None) -> bool:
    return campaign is None or campaign.status == Campaign.Status.DRAFT
