"""Notices to reps: what they were told of and what came of it, to look at."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import short
from outreach.models import NoticeMail
from routing.admin.leads import state

LOOKS = {"sent": "ok", "begun": "pending", "deferred": "warn", "dropped": "closed"}


class NoticeTabs(Tabs):
    title = "status"
    parameter_name = "status"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("in_doubt", "In doubt", lambda rows: rows.filter(status="in_doubt"), counted=True, alarming=True),
        Tab("refused", "Refused", lambda rows: rows.filter(status="refused"), counted=True, alarming=True),
        Tab("deferred", "Due again", lambda rows: rows.filter(status="deferred"), counted=True),
    )


@admin.register(NoticeMail)
class NoticeMailAdmin(Facts):
    list_display = ("rep", "status_now", "leads", "tries", "begun", "answer")
    list_select_related = ("rep",)
    list_filter = (NoticeTabs,)
    search_fields = ("rep__email",)
    search_help_text = "The rep's address."
    fields = ("rep", "status_now", "leads", "tries", "begun", "due_at", "settled_at", "answer", "worker")
    readonly_fields = fields
    list_title = "Notices to reps"
    empty_says = "No notices yet. They leave once a relay (EMAIL_HOST) and a sender (NOTICE_FROM) are set."

    def get_queryset(self, request: HttpRequest) -> QuerySet[NoticeMail]:
        return super().get_queryset(request).prefetch_related("notices__assignment__lead")

    @admin.display(description="status")
    def status_now(self, mail: NoticeMail) -> SafeString:
        return state(LOOKS.get(mail.status, "bad"), mail.get_status_display())

    @admin.display(description="leads")
    def leads(self, mail: NoticeMail) -> SafeString:
        told = [notice.assignment.lead for notice in mail.notices.all()]
        return format_html_join(", ", '<a href="/admin/routing/lead/{}/change/">{}</a>', ((x.pk, str(x)) for x in told))

    @admin.display(description="begun")
    def begun(self, mail: NoticeMail) -> str:
        return short(mail.begun_at)

    @admin.display(description="the relay's answer")
    def answer(self, mail: NoticeMail) -> str:
        return f"{mail.phase} {mail.code or ''} {mail.reply[:80]}".strip() or "–"
