"""The fairness page: for a team and some days, who was due what, who got what, and why anybody was passed over."""

from datetime import UTC, timedelta
from typing import Any

from django import forms
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from routing.fairness import report
from routing.models import Team
from routing.spans import moment

DAYS = 30
LONGEST = timedelta(days=366)


class PeriodForm(forms.Form):
    """A team and whole days on its clock, the last one included."""

    team = forms.ModelChoiceField(Team.objects.order_by("name"), empty_label=None)
    first = forms.DateField(label="From", widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"))
    last = forms.DateField(label="To", widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"))

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        first, last = given.get("first"), given.get("last")
        if first and last and not timedelta() <= last - first < LONGEST:
            self.add_error("last", "The last day is before the first, or more than a year after it.")
        return given


def fairness_page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """The page; without a team in its address, the first team in service and the last thirty days."""
    if not request.user.has_perm("routing.view_membership"):
        raise PermissionDenied
    teams = Team.objects.order_by("name")
    asked = request.GET.get("team", "")
    team = teams.filter(pk=asked).first() if asked.isdigit() else None
    team = team or teams.filter(retired_at=None).first()
    today = timezone.now().astimezone(team.tzinfo if team else UTC).date()
    usual = {"team": team.pk if team else "", "first": today - timedelta(days=DAYS - 1), "last": today}
    form = PeriodForm({name: request.GET.get(name) or value for name, value in usual.items()})
    context: dict[str, Any] = {**site.each_context(request), "title": "Fairness", "form": form, "any_team": team}
    if form.is_valid():
        given = form.cleaned_data
        zone = given["team"].tzinfo
        since = moment(day=given["first"], zone=zone)
        until = moment(day=given["last"] + timedelta(days=1), zone=zone)
        found = report(team=given["team"], since=since, until=until)
        context |= {"report": found, "team": given["team"], "rows": [(each, _skipped(each)) for each in found.shares]}
    return TemplateResponse(request, "admin/fairness.html", context)


def _skipped(share: Any) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in share.skipped.items()) or "–"
