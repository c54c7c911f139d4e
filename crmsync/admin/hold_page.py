"""Hold a parent's lane until a time, or release it: who and why stands below, for as long as anybody asks."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone

from crmsync.errors import WrongState
from crmsync.models import Intervention, Lane
from crmsync.moves.interventions import hold, release
from crmsync.nudge import nudge

MINUTE = "%Y-%m-%dT%H:%M"


class HoldForm(forms.Form):
    """Until when, and why."""

    until = forms.DateTimeField(
        label="Until (UTC)", input_formats=[MINUTE], widget=forms.DateTimeInput(attrs={"type": "datetime-local"})
    )
    reason = forms.CharField(max_length=500, strip=True, widget=forms.TextInput(attrs={"class": "vTextField"}))


def hold_page(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """The page of one lock key, which need not have a lane yet."""
    key = request.GET.get("key", "").strip()
    if not key:
        return redirect("admin:crmsync_lane_changelist")
    by = request.user.get_username()
    releasing = request.POST.get("do") == "release"
    form = HoldForm(request.POST if request.method == "POST" and not releasing else None)
    if releasing:
        done = release(key=key, by=by, reason=request.POST.get("reason", "").strip()[:500])
        nudge()
        text = "Released: what waited is sent now." if done else "Nobody held it."
        model_admin.message_user(request, text, messages.SUCCESS if done else messages.WARNING)
        return redirect(request.get_full_path())
    if form.is_valid():
        try:
            hold(key=key, until=form.cleaned_data["until"], by=by, reason=form.cleaned_data["reason"])
        except WrongState as refusal:
            form.add_error("until", str(refusal))
        else:
            model_admin.message_user(request, "Held: nothing is begun under it until then.", messages.SUCCESS)
            return redirect(request.get_full_path())
    lane = Lane.objects.select_related("claim").filter(key=key).first()
    context = {
        **model_admin.admin_site.each_context(request),
        "title": key,
        "opts": model_admin.opts,
        "lane": lane,
        "held": bool(lane and lane.held_until and lane.held_until > timezone.now()),
        "form": form,
        "deeds": Intervention.objects.filter(about=key).order_by("-at")[:20],
    }
    return TemplateResponse(request, "admin/crmsync/hold.html", context)
