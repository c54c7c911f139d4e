"""The contention page: where Rota met locks in the CRM over some days, what else locks there, and what to do."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

from django import forms
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from crmsync.contention import contention
from crmsync.doctor.advice import advice
from crmsync.doctor.locking import built_in

DAYS = 7
LONGEST = timedelta(days=92)


class DaysForm(forms.Form):
    """Whole days, in UTC, the last one included."""

    first = forms.DateField(label="From", widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"))
    last = forms.DateField(label="To", widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"))
    ask = forms.BooleanField(label="Ask the org what else locks", required=False)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        first, last = given.get("first"), given.get("last")
        if first and last and not timedelta() <= last - first < LONGEST:
            self.add_error("last", "The last day is before the first, or more than three months after it.")
        return given


def contention_page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """The page; without days in its address, the last seven. The org is asked on request only: it costs calls."""
    if not request.user.has_perm("crmsync.view_attempt"):
        raise PermissionDenied
    today = timezone.now().date()
    usual = {"first": today - timedelta(days=DAYS - 1), "last": today}
    form = DaysForm({"ask": request.GET.get("ask"), **{key: request.GET.get(key) or day for key, day in usual.items()}})
    context: dict[str, Any] = {**site.each_context(request), "title": "Contention", "form": form}
    if form.is_valid():
        given = form.cleaned_data
        since = datetime.combine(given["first"], time(), UTC)
        until = datetime.combine(given["last"] + timedelta(days=1), time(), UTC)
        found = contention(since=since, until=until)
        names = [each.object for each in found.objects]
        built, unknown = built_in(names) if given["ask"] else ([], "")
        context |= {
            "report": found,
            "advice": advice(found, built),
            "asked": given["ask"],
            "built": built,
            "unknown": unknown,
            "hours": _bars(found.hours),
        }
    return TemplateResponse(request, "admin/contention.html", context)


def _bars(hours: tuple[int, ...]) -> list[dict[str, int]]:
    """A bar for each hour: its failures, and its place and height in a drawing 480 wide and 100 high."""
    most = max(hours, default=0) or 1
    return [
        {
            "hour": hour,
            "count": count,
            "x": hour * 20 + 2,
            "y": 100 - count * 100 // most,
            "height": count * 100 // most,
        }
        for hour, count in enumerate(hours)
    ]
