"""Leads and their assignments: read them, see why, assign, close or put back by hand."""

from typing import Any

from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short
from routing import by_hand, find
from routing.admin import hand_over
from routing.admin.leads_in_words import describe
from routing.admin.team_filter import TeamFilter
from routing.explain import explain, lag_in_short, phrase
from routing.models import Assignment, Lead
from routing.presence import seats


class LeadTabs(Tabs):
    title = "status"
    parameter_name = "status"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("waiting", "Waiting", lambda rows: rows.filter(status="waiting"), counted=True, alarming=True),
        Tab("set_aside", "Set aside", lambda rows: rows.filter(status="set_aside"), counted=True, alarming=True),
        Tab("assigned", "Assigned", lambda rows: rows.filter(status="assigned"), counted=True),
        Tab("closed", "Closed", lambda rows: rows.filter(status="closed"), counted=True),
    )


def state(name: str, label: str) -> SafeString:
    """A status as a coloured word; the word alone says it, too."""
    return format_html('<span class="state {}">{}</span>', name, label)


@admin.register(Lead)
class LeadAdmin(Facts):
    list_display = ("lead", "company", "status_now", "team", "rep", "why_here", "received")
    list_select_related = ("team",)
    list_filter = (LeadTabs, TeamFilter)
    search_fields = ("email",)
    search_help_text = find.HELP
    actions = ("assign_selected", "mark_worked", "give_to", "give_back", "close_selected", "put_back")
    empty_says = "No leads here. They arrive through the webhook of a source; see Sources."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Lead]:
        current = Assignment.objects.filter(ended_at=None).select_related("membership__rep")
        return super().get_queryset(request).prefetch_related(Prefetch("assignments", current, to_attr="current"))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Lead], search_term: str
    ) -> tuple[QuerySet[Lead], bool]:
        return find.find(queryset, search_term), False

    @admin.display(description="lead")
    def lead(self, lead: Lead) -> SafeString:
        address = lead.email or lead.phone
        return format_html('{}<br><span class="quiet">{}</span>', str(lead), address if str(lead) != address else "")

    @admin.display(description="status")
    def status_now(self, lead: Lead) -> SafeString:
        return state(lead.status, lead.get_status_display())

    @admin.display(description="rep")
    def rep(self, lead: Lead) -> str:
        current = _current(lead)
        return current.membership.rep.name if current else "–"

    @admin.display(description="why")
    def why_here(self, lead: Lead) -> str:
        return phrase(lead, _current(lead))

    @admin.display(description="received")
    def received(self, lead: Lead) -> str:
        return short(lead.created_at)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        lead = context["original"]
        waits = lead.status in (Lead.Status.WAITING, Lead.Status.SET_ASIDE)
        context["explanation"] = explain(lead)
        context["waits"] = waits
        context["current"] = _current(lead)
        context["seats"] = seats(team_ids=[lead.team_id])[lead.team_id] if waits else []
        context["title"] = str(lead)
        context["subtitle"] = None
        return super().render_change_form(request, context, *args, **kwargs)

    def page_actions(self, row: Lead) -> dict[str, str]:
        give, close = {"give_to": "Give to"}, {"close_selected": "Close"}
        worked = {} if row.first_worked_at else {"mark_worked": "Mark as worked"}
        fitting = {
            Lead.Status.WAITING: {"assign_selected": "Assign now", **give, **close},
            Lead.Status.SET_ASIDE: {"put_back": "Put back", **give, **close},
            Lead.Status.ASSIGNED: {**worked, **give, "give_back": "Give back to the turns", **close},
        }
        return fitting.get(Lead.Status(row.status), {})

    def has_work_permission(self, request: HttpRequest) -> bool:
        """Leads are read-only as rows; who may change them may also move them on."""
        return bool(request.user.has_perm("routing.change_lead"))

    @admin.action(description="Assign selected", permissions=["work"])
    def assign_selected(self, request: HttpRequest, queryset: QuerySet[Lead]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title=f"Assign {plural(len(asked.ids), 'lead')}",
                    says="Each waiting lead takes its team's next turn now, before older ones that still wait. "
                    "A lead stays waiting where no member is present or the turnstile is busy.",
                    button="Assign",
                    ready=_count(asked.ids, Lead.Status.WAITING),
                    others="not waiting: they stay as they are",
                ),
                describe,
            )
        given = by_hand.assign_now(lead_ids=asked.ids)
        failed = f"The turns of {plural(len(given.failed_teams), 'team')} failed: their leads stay waiting."
        return asked.tell(
            self, given.taken, "Assigned", "that nobody can take now", failed if given.failed_teams else ""
        )

    @admin.action(description="Mark as worked", permissions=["work"])
    def mark_worked(self, request: HttpRequest, queryset: QuerySet[Lead]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title=f"Mark {plural(len(asked.ids), 'lead')} as worked",
                    says="Somebody has called, written to or met them for the first time. Their service level is kept "
                    "from now on, and they are not taken away any more for being late.",
                    button="Mark",
                    ready=Lead.objects.filter(pk__in=asked.ids, status__in=Lead.OPEN, first_worked_at=None).count(),
                    others="worked already, or closed",
                ),
                describe,
            )
        done = by_hand.worked_now(lead_ids=asked.ids, by=asked.by)
        return asked.tell(self, done, "Marked as worked", "worked already, or closed")

    @admin.action(description="Give to somebody", permissions=["work"])
    def give_to(self, request: HttpRequest, queryset: QuerySet[Lead]) -> HttpResponse | None:
        return hand_over.give_to(self, Asked(request, queryset))

    @admin.action(description="Give back to the turns (declined)", permissions=["work"])
    def give_back(self, request: HttpRequest, queryset: QuerySet[Lead]) -> HttpResponse | None:
        return hand_over.give_back(self, Asked(request, queryset))

    @admin.action(description="Close selected", permissions=["work"])
    def close_selected(self, request: HttpRequest, queryset: QuerySet[Lead]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title=f"Close {plural(len(asked.ids), 'lead')}",
                    says="Their assignments end, and a new event of the same address makes a new lead. "
                    "A closed lead is not opened again.",
                    button="Close",
                    ready=_count(asked.ids, *Lead.OPEN),
                    others="closed already",
                ),
                describe,
            )
        return asked.tell(self, by_hand.close_now(lead_ids=asked.ids), "Closed", "already closed")

    @admin.action(description="Put back (set aside → waiting)", permissions=["work"])
    def put_back(self, request: HttpRequest, queryset: QuerySet[Lead]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title=f"Put {plural(len(asked.ids), 'lead')} back",
                    says="They wait for a turn of their team again. One whose turn fails again is set aside again.",
                    button="Put back",
                    ready=_count(asked.ids, Lead.Status.SET_ASIDE),
                    others="not set aside",
                ),
                describe,
            )
        return asked.tell(self, by_hand.put_back_now(lead_ids=asked.ids), "Put back", "not set aside")


@admin.register(Assignment)
class AssignmentAdmin(Facts):
    list_display = ("turn_of_team", "lead", "rep", "lag_moved", "how", "assigned", "ended")
    list_select_related = ("lead", "team", "membership__rep")
    list_filter = (TeamFilter,)
    empty_says = "No assignments yet: the first lead that a member can take makes one."

    @admin.display(description="turn")
    def turn_of_team(self, assignment: Assignment) -> str:
        return f"{assignment.team} {assignment.turn:,}"

    @admin.display(description="rep")
    def rep(self, assignment: Assignment) -> str:
        return assignment.membership.rep.name

    @admin.display(description="lag before → after")
    def lag_moved(self, assignment: Assignment) -> str:
        return f"{lag_in_short(assignment.lag_before)} → {lag_in_short(assignment.lag_after)}"

    @admin.display(description="how")
    def how(self, assignment: Assignment) -> str:
        if assignment.chosen_by:
            return f"given by {assignment.chosen_by}"
        return "preferred" if assignment.preferred else "in turn"

    @admin.display(description="assigned")
    def assigned(self, assignment: Assignment) -> str:
        return short(assignment.assigned_at)

    @admin.display(description="ended")
    def ended(self, assignment: Assignment) -> str:
        if assignment.ended_at is None:
            return "current"
        return f"{short(assignment.ended_at)}: {assignment.get_end_reason_display().lower()}"

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """An assignment is explained on its lead's page."""
        found = Assignment.objects.filter(pk=object_id).first() if object_id.isdigit() else None
        if found is None or not self.has_view_permission(request):
            return super().change_view(request, object_id, form_url, extra_context)

        return redirect("admin:routing_lead_change", found.lead_id)


def _current(lead: Lead) -> Assignment | None:
    current: list[Assignment] = lead.current  # type: ignore[attr-defined]
    return current[0] if current else None


def _count(ids: list[int], *statuses: str) -> int:
    return Lead.objects.filter(pk__in=ids, status__in=statuses).count()
