"""Late leads: those that their rep did not work within the team's service level, and what was done about it."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.safestring import SafeString

from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import age, short
from routing.admin.leads import state
from routing.models import ServiceBreach

LOOKS = {"moved": "ok", "alerted": "warn", "chosen": "warn", "enough": "bad", "nobody": "bad"}


def still_open(rows: QuerySet[Any]) -> QuerySet[Any]:
    """What wants a person."""
    return rows.filter(pk__in=ServiceBreach.objects.still_open())


class LateTabs(Tabs):
    title = "state"
    parameter_name = "state"
    tabs = (
        Tab("", "Still to be worked", still_open, counted=True, alarming=True),
        Tab("moved", "Given to somebody else", lambda rows: rows.filter(outcome="moved")),
        Tab("all", "All", lambda rows: rows),
    )


@admin.register(ServiceBreach)
class ServiceBreachAdmin(Facts):
    list_display = ("lead", "team", "rep", "outcome_now", "allowed", "late_since")
    list_select_related = ("lead", "assignment__membership__rep", "assignment__team")
    list_filter = (LateTabs,)
    list_title = "Late leads"
    empty_says = "No lead is late. A team's page says within how many working minutes its leads are to be worked."

    @admin.display(description="team")
    def team(self, breach: ServiceBreach) -> str:
        return breach.assignment.team.name

    @admin.display(description="rep")
    def rep(self, breach: ServiceBreach) -> str:
        return breach.assignment.membership.rep.name

    @admin.display(description="what was done")
    def outcome_now(self, breach: ServiceBreach) -> SafeString:
        return state(LOOKS[breach.outcome], breach.get_outcome_display())

    @admin.display(description="work within")
    def allowed(self, breach: ServiceBreach) -> str:
        return f"{breach.minutes:,} min"

    @admin.display(description="late since")
    def late_since(self, breach: ServiceBreach) -> str:
        return f"{short(breach.breached_at)} ({age(breach.breached_at)} ago)"

    def change_view(self, request: HttpRequest, object_id: str, *args: object, **kwargs: object) -> HttpResponse:
        """A late lead is dealt with on its own page."""
        found = ServiceBreach.objects.filter(pk=object_id).first() if object_id.isdigit() else None
        if found is None or not self.has_view_permission(request):
            return super().change_view(request, object_id, *args, **kwargs)  # type: ignore[arg-type]
        return redirect("admin:routing_lead_change", found.lead_id)
