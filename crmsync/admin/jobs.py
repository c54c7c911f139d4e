"""The journal of bulk jobs: what each carries and how far it has come; to look at only."""

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import short, span
from crmsync.models import BulkJob


class JobTabs(Tabs):
    title = "state"
    parameter_name = "state"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("unfinished", "Unfinished", lambda rows: rows.filter(ended_at__isnull=True), counted=True),
        Tab("aborted", "Aborted", lambda rows: rows.filter(status="aborted")),
        Tab("doubt", "Did not add up", lambda rows: rows.filter(reads__gt=0), alarming=True),
    )


@admin.register(BulkJob)
class BulkJobAdmin(Facts):
    list_display = ("of", "state_now", "carries", "made", "took", "next_look", "message")
    list_filter = (JobTabs,)
    list_title = "Bulk jobs"
    ordering = ("-pk",)
    empty_says = "No bulk jobs. Mass updates of many rows become jobs; fewer rows go by calls."

    @admin.display(description="job")
    def of(self, job: BulkJob) -> SafeString:
        return format_html('{}<br><span class="quiet">{}</span>', job.org_id or "not made yet", job.get_road_display())

    @admin.display(description="state")
    def state_now(self, job: BulkJob) -> SafeString:
        look = {"harvested": "ok", "aborted": "bad"}.get(job.status, "pending")
        return format_html('<span class="state {}">{}</span>', look, job.get_status_display())

    @admin.display(description="rows")
    def carries(self, job: BulkJob) -> str:
        failed = f", {job.failed:,} failed" if job.failed else ""
        return f"{job.processed:,} of {job.rows:,} {job.object}, {job.operation}{failed}"

    @admin.display(description="made")
    def made(self, job: BulkJob) -> str:
        return short(job.created_at)

    @admin.display(description="took")
    def took(self, job: BulkJob) -> str:
        return span(job.created_at, job.ended_at) if job.ended_at else "–"

    @admin.display(description="next look")
    def next_look(self, job: BulkJob) -> str:
        return "–" if job.ended_at else short(job.look_at)
