"""Whether Rota writes to the org: paused by itself, or stopped and resumed by a person who says why."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from crmsync.desk.lists import Facts
from crmsync.desk.tabs import count_anew
from crmsync.models import Intervention, OrgState
from crmsync.moves.interventions import resume_org, stop_org
from crmsync.nudge import nudge


class StopForm(forms.Form):
    """Which way, and why."""

    do = forms.ChoiceField(choices=[("stop", "stop"), ("resume", "resume")])
    reason = forms.CharField(max_length=500, strip=True)


@admin.register(OrgState)
class OrgStateAdmin(Facts):
    """One page instead of a list of one row."""

    list_title = "Org"

    def has_stop_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("crmsync.change_orgstate"))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = StopForm(request.POST or None)
        if request.method == "POST":
            if not self.has_stop_permission(request):
                raise PermissionDenied
            if form.is_valid():
                self.carry_out(request, **form.cleaned_data)
                return redirect("admin:crmsync_orgstate_changelist")
        context = {
            **self.admin_site.each_context(request),
            "title": "Org",
            "opts": self.opts,
            "org": OrgState.objects.first(),
            "form": form,
            "may_stop": self.has_stop_permission(request),
            "deeds": Intervention.objects.filter(
                about="", kind__in=(Intervention.Kind.STOPPED, Intervention.Kind.RESUMED)
            ).order_by("-at")[:20],
        }
        return TemplateResponse(request, "admin/crmsync/org.html", context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("admin:crmsync_orgstate_changelist")

    def carry_out(self, request: HttpRequest, *, do: str, reason: str) -> None:
        by = request.user.get_username()
        if do == "stop":
            done = stop_org(by=by, reason=reason)
            text = "Stopped: no call is begun any more." if done else "It was stopped before."
        else:
            done = resume_org(by=by, reason=reason)
            text = "Resumed: what waits is sent." if done else "It was writing."
            nudge()
        self.message_user(request, text, messages.SUCCESS if done else messages.WARNING)
        count_anew()
