"""Mass updates: push a file, see how far it is, pause it, cancel it, take away a verdict for every row."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.admin.push_page import push_page
from crmsync.csvfile import csv_lines
from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short
from crmsync.errors import CrmSyncError
from crmsync.flows.push import go_on_cancelling
from crmsync.models import Batch, Intervention
from crmsync.moves import batches
from crmsync.moves.progress import Verdict, progress, verdicts
from crmsync.nudge import ask, nudge

AT_ONCE = 20_000
"""Waiting rows that a click takes out while one waits; of a larger mass update a task does it."""
OVER = "cancelled before or ended"


class BatchTabs(Tabs):
    title = "state"
    parameter_name = "state"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("offered", "To confirm", lambda rows: rows.filter(status="offered"), counted=True),
        Tab("running", "Running", lambda rows: rows.filter(status__in=["loading", "queued"], settled_at=None)),
        Tab("paused", "Paused", lambda rows: rows.filter(paused_at__isnull=False), counted=True),
        Tab("ended", "Ended", lambda rows: rows.filter(settled_at__isnull=False)),
    )


@admin.register(Batch)
class BatchAdmin(Facts):
    list_display = ("name", "state_now", "rows", "by", "since")
    list_filter = (BatchTabs,)
    actions = ("pause_selected", "resume_selected", "cancel_selected")
    change_form_template = "admin/crmsync/batch.html"
    change_list_template = "admin/crmsync/batches.html"
    empty_says = "No mass updates. Push a file of changes, here or with crm_push."

    def get_urls(self) -> list[URLPattern]:
        own = [
            path("push/", self.admin_site.admin_view(self.push), name="crmsync_batch_push"),
            path("<int:batch_id>/go/", self.admin_site.admin_view(self.go), name="crmsync_batch_go"),
            path("<int:batch_id>/verdicts/", self.admin_site.admin_view(self.verdicts), name="crmsync_batch_verdicts"),
        ]
        return [*own, *super().get_urls()]

    def has_push_permission(self, request: HttpRequest) -> bool:
        """Who may change mass updates may push files and stop them."""
        return bool(request.user.has_perm("crmsync.change_batch"))

    @admin.display(description="file")
    def name(self, batch: Batch) -> SafeString:
        return format_html('{}<br><span class="quiet">{} {}</span>', batch.file_name, batch.operation, batch.object)

    @admin.display(description="state")
    def state_now(self, batch: Batch) -> SafeString:
        return format_html('<span class="state {}">{}</span>', *state_of(batch))

    @admin.display(description="rows")
    def rows(self, batch: Batch) -> str:
        return (
            f"{batch.rows_queued:,} of {batch.rows_total:,}" if batch.status == "loading" else f"{batch.rows_total:,}"
        )

    @admin.display(description="by")
    def by(self, batch: Batch) -> str:
        return batch.created_by

    @admin.display(description="since")
    def since(self, batch: Batch) -> str:
        return short(batch.created_at)

    def page_actions(self, row: Batch) -> dict[str, str]:
        if row.status == Batch.Status.CANCELLED or row.settled_at:
            return {}
        if row.status == Batch.Status.OFFERED:
            return {"cancel_selected": "Withdraw"}
        stop = {"resume_selected": "Resume"} if row.paused_at else {"pause_selected": "Pause"}
        return {**stop, "cancel_selected": "Cancel"}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(
            request, {"may_push": self.has_push_permission(request), **(extra_context or {})}
        )

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        batch = context["original"]
        context["title"] = context["heading"] = batch.file_name
        context["subtitle"] = None
        context["look"], context["state"] = state_of(batch)
        context["may_push"] = self.has_push_permission(request)
        context["before"] = batches.pushed_before(batch) if batch.status == Batch.Status.OFFERED else None
        if batch.status != Batch.Status.OFFERED:
            context["progress"] = progress(batch)
        context["deeds"] = Intervention.objects.filter(about=batches.about(batch.pk)).order_by("-at")[:20]
        return super().render_change_form(request, context, *args, **kwargs)

    def push(self, request: HttpRequest) -> HttpResponse:
        if not self.has_push_permission(request):
            raise PermissionDenied
        return push_page(self, request)

    def go(self, request: HttpRequest, batch_id: int) -> HttpResponse:
        """Start what was looked at."""
        batch = get_object_or_404(Batch, pk=batch_id)
        if not self.has_push_permission(request) or request.method != "POST":
            raise PermissionDenied
        try:
            batches.go(batch_id=batch.pk, by=request.user.get_username(), again=request.POST.get("again") == "yes")
        except CrmSyncError as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
        else:
            ask("crmsync.tasks.load_batch", batch.pk)
            self.message_user(request, "Started: its rows are being queued.", messages.SUCCESS)
        return redirect("admin:crmsync_batch_change", batch.pk)

    def verdicts(self, request: HttpRequest, batch_id: int) -> StreamingHttpResponse:
        """A line for every row that was queued, as CSV."""
        batch = get_object_or_404(Batch, pk=batch_id)
        if not self.has_view_permission(request, batch):
            raise PermissionDenied
        lines = csv_lines(row for part in ([Verdict.HEADER], (one.cells() for one in verdicts(batch))) for row in part)
        answer = StreamingHttpResponse((line.encode() for line in lines), content_type="text/csv; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="mass-update-{batch.pk}-verdicts.csv"'
        return answer

    @admin.action(description="Pause selected", permissions=["push"])
    def pause_selected(self, request: HttpRequest, queryset: QuerySet[Batch]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            says = "No further row is begun; calls under way are finished. A change by Rota of the same record takes "
            return asked.page(self, question("Pause", says + "its row along.", asked, "paused or ended"))
        done = sum(batches.pause(batch_id=pk, by=asked.by, reason=asked.reason) for pk in asked.ids)
        return asked.tell(self, done, "Paused", "paused or ended")

    @admin.action(description="Resume selected", permissions=["push"])
    def resume_selected(self, request: HttpRequest, queryset: QuerySet[Batch]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            return asked.page(self, question("Resume", "Waiting rows are sent again.", asked, "not paused or ended"))
        done = sum(batches.resume(batch_id=pk, by=asked.by, reason=asked.reason) for pk in asked.ids)
        nudge()
        return asked.tell(self, done, "Resumed", "not paused or ended")

    @admin.action(description="Cancel selected", permissions=["push"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Batch]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        chosen = list(Batch.objects.live().filter(pk__in=asked.ids))
        if not asked.confirmed:
            return asked.page(self, cancel_question(chosen, asked))
        done = 0
        for batch in chosen:
            if not batches.cancel(batch_id=batch.pk, by=asked.by, reason=asked.reason):
                continue
            done += 1
            if batch.rows_queued <= AT_ONCE:
                go_on_cancelling(batch_id=batch.pk)
            else:
                ask("crmsync.tasks.cancel_batch", batch.pk)
        return asked.tell(self, done, "Cancelled", OVER)


def state_of(batch: Batch) -> tuple[str, str]:
    """How the state looks, and its word."""
    if batch.status == Batch.Status.CANCELLED:
        return "closed", "cancelled"
    if batch.status == Batch.Status.OFFERED:
        return "warn", "to confirm"
    if batch.settled_at:
        return "ok", "ended"
    if batch.paused_at:
        return "warn", "paused"
    return "pending", "being queued" if batch.status == Batch.Status.LOADING else "being sent"


def question(verb: str, says: str, asked: Asked, others: str) -> Question:
    begun = Batch.objects.begun().filter(pk__in=asked.ids)
    ready = begun.filter(paused_at__isnull=verb == "Pause").count()
    return Question(
        title=f"{verb} {plural(len(asked.ids), 'mass update')}", says=says, button=verb, ready=ready, others=others,
        wants_reason=True,
    )  # fmt: skip


def cancel_question(chosen: list[Batch], asked: Asked) -> Question:
    """What is gone already is said before."""
    warns = []
    for batch in chosen:
        far = progress(batch)
        gone = far.delivered + far.overtaken
        warns.append(
            f"{batch.file_name}: {plural(gone, 'row')} arrived already and {far.sending:,} are being sent; "
            f"{plural(far.waiting + far.total - far.queued, 'row')} will not be sent."
        )
    return Question(
        title=f"Cancel {plural(len(chosen), 'mass update')}",
        says="Rows that wait are never sent. What arrived stays in the CRM; a row that a newer change of its record "
        "took over goes with that. Changes that a waiting row had taken over wait again.",
        button="Cancel",
        ready=len(chosen),
        others=OVER,
        wants_reason=True,
        warns=warns,
    )
