"""Imports of leads: upload a file, see how it was understood, rehearse it, run it, watch it, and undo it."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short
from routing import import_states, imports
from routing.admin.import_page import import_page, upload_page, verdicts_page
from routing.admin.leads import state
from routing.errors import BadMapping, WrongImportState
from routing.models import Import
from routing.undo_import import may_undo, undo

Status = Import.Status
LOOKS = {
    "received": "warn",
    "running": "ok",
    "paused": "warn",
    "finished": "ok",
    "cancelled": "closed",
    "failed": "bad",
}


class ImportTabs(Tabs):
    title = "status"
    parameter_name = "status"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("open", "Open", lambda rows: rows.filter(status__in=Import.OPEN)),
        Tab("finished", "Finished", lambda rows: rows.filter(status=Status.FINISHED)),
        Tab("others", "Cancelled or failed", lambda rows: rows.filter(status__in=(Status.CANCELLED, Status.FAILED))),
    )


@admin.register(Import)
class ImportAdmin(Facts):
    list_display = ("file_name", "source", "status_now", "done", "created", "touched", "duplicate", "rejected", "when")
    list_filter = (ImportTabs,)
    list_select_related = ("source",)
    actions = ("pause_selected", "resume_selected", "cancel_selected", "undo_selected")
    empty_says = "No imports yet. Add one to take in the leads of a CSV file."

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(lambda request, pk: verdicts_page(self, request, pk))
        return [path("<int:pk>/verdicts/", view, name="routing_import_verdicts"), *super().get_urls()]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("routing.add_import"))

    def has_work_permission(self, request: HttpRequest) -> bool:
        """Who may start imports may stop and undo them."""
        return bool(request.user.has_perm("routing.change_import"))

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return upload_page(self, request)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return import_page(self, request, object_id)

    @admin.display(description="status")
    def status_now(self, row: Import) -> SafeString:
        return state("closed", "undone") if row.undone_at else state(LOOKS[row.status], Status(row.status).label)

    @admin.display(description="rows")
    def done(self, row: Import) -> str:
        return f"{row.position:,} of {row.total:,}" if row.total is not None else f"{row.position:,}"

    @admin.display(description="received")
    def when(self, row: Import) -> str:
        return f"{short(row.received_at)} by {row.received_by}"

    def page_actions(self, row: Import) -> dict[str, str]:
        fitting = {
            Status.RECEIVED: {"cancel_selected": "Cancel"},
            Status.RUNNING: {"pause_selected": "Pause", "cancel_selected": "Cancel"},
            Status.PAUSED: {"resume_selected": "Resume", "cancel_selected": "Cancel"},
            Status.FAILED: {"resume_selected": "Resume"},
        }
        return fitting.get(Status(row.status)) or ({"undo_selected": "Undo"} if may_undo(row) else {})

    @admin.action(description="Pause selected", permissions=["work"])
    def pause_selected(self, request: HttpRequest, queryset: QuerySet[Import]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            says = "The rows in hand, some thousands at most, still go in; then it stops until somebody resumes it."
            return self._ask(asked, "Pause", says, (Status.RUNNING,), "not running")
        return asked.tell(self, import_states.pause(import_ids=asked.ids), "Paused", "not running")

    @admin.action(description="Resume selected", permissions=["work"])
    def resume_selected(self, request: HttpRequest, queryset: QuerySet[Import]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        ready = (Status.PAUSED, Status.FAILED)
        if not asked.confirmed:
            return self._ask(
                asked, "Resume", "It goes on behind the last row that is in.", ready, "not paused and not failed"
            )
        done, refused = 0, ""
        for row in Import.objects.filter(pk__in=asked.ids, status__in=ready).order_by("pk"):
            try:
                done += imports.start(row=row)
            except BadMapping as refusal:
                refused = str(refusal)
        return asked.tell(self, done, "Resumed", "not paused and not failed", refused)

    @admin.action(description="Cancel selected", permissions=["work"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Import]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            says = "What is in stays in and can be undone; the rest of the file is not imported. For good."
            return self._ask(asked, "Cancel", says, Import.OPEN, "ended already")
        return asked.tell(self, import_states.cancel(import_ids=asked.ids), "Cancelled", "ended already")

    @admin.action(description="Undo selected", permissions=["work"])
    def undo_selected(self, request: HttpRequest, queryset: QuerySet[Import]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        rows = [row for row in Import.objects.filter(pk__in=asked.ids).order_by("pk") if may_undo(row)]
        if not asked.confirmed:
            question = Question(
                title=f"Undo {plural(len(asked.ids), 'import')}",
                says=f"Closes the {sum(row.created for row in rows):,} leads that they made, except those that "
                "somebody has touched since, and gives their turns back. Leads that were there before are left alone, "
                "and so is what Salesforce has. History stays.",
                button="Undo",
                ready=len(rows),
                others="running, made no leads, undone before, or too long ago",
            )
            return asked.page(self, question)
        done, more = 0, ""
        for row in rows:
            try:
                undone = undo(import_id=row.pk, by=asked.by)
            except WrongImportState:
                continue
            done += 1
            left = "".join(f" Left {many:,} where the lead {why}." for why, many in undone.left.items())
            more += f"{row}: closed {plural(undone.closed, 'lead')}.{left} "
        skipped = len(asked.ids) - done
        others = f"{skipped:,} that cannot be undone" if skipped else ""
        return asked.tell_in(self, done, "Undone", others, more.strip())

    def _ask(self, asked: Asked, verb: str, says: str, ready: tuple[str, ...], others: str) -> HttpResponse:
        count = Import.objects.filter(pk__in=asked.ids, status__in=ready).count()
        title = f"{verb} {plural(len(asked.ids), 'import')}"
        return asked.page(self, Question(title=title, says=says, button=verb, ready=count, others=others))
