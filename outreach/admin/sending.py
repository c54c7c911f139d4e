"""The switch: whether campaign mail may be sent at all, since when, why, and who said so."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from crmsync.desk.lists import Facts
from crmsync.desk.tabs import count_anew
from outreach.models import OutreachEvent, SendingState
from outreach.moves.sending import seen, switch_off, switch_on

NEWEST = 50_000
"""Among how many of the newest events the switch's own are looked for."""


class SwitchForm(forms.Form):
    """Which way, and why."""

    switch = forms.ChoiceField(choices=[("on", "on"), ("off", "off")])
    reason = forms.CharField(max_length=150, strip=True)


@admin.register(SendingState)
class SendingStateAdmin(Facts):
    """One page instead of a list of one row."""

    list_title = "Sending"

    def has_switch_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("outreach.change_sendingstate"))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST":
            return self._switch(request)
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self._page(request, SwitchForm())

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("admin:outreach_sendingstate_changelist")

    def _switch(self, request: HttpRequest) -> HttpResponse:
        if not self.has_switch_permission(request):
            raise PermissionDenied
        form = SwitchForm(request.POST)
        if not form.is_valid():
            return self._page(request, form)
        by, reason = request.user.get_username(), form.cleaned_data["reason"]
        if form.cleaned_data["switch"] == "on":
            switch_on(by=by, reason=reason)
            self.message_user(request, "Switched on: due mails are sent.", messages.SUCCESS)
        else:
            switch_off(because=f"{reason} ({by})", worker=by)
            self.message_user(request, "Switched off: no mail is begun any more.", messages.WARNING)
        count_anew()
        return redirect("admin:outreach_sendingstate_changelist")

    def _page(self, request: HttpRequest, form: SwitchForm) -> HttpResponse:
        newest = OutreachEvent.objects.aggregate(newest=Max("pk"))["newest"] or 0
        Kind = OutreachEvent.Kind
        told = OutreachEvent.objects.filter(
            pk__gt=newest - NEWEST, message=None, kind__in=(Kind.STOPPED, Kind.RESOLVED)
        )
        context = {
            **self.admin_site.each_context(request),
            "title": "Sending",
            "opts": self.opts,
            "sending": seen(),
            "form": form,
            "may_switch": self.has_switch_permission(request),
            "told": list(told.order_by("-pk")[:20]),
        }
        return TemplateResponse(request, "admin/outreach/sending.html", context)
