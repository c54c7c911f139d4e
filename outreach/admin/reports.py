"""What was reported of mails after they left, to read: each report once, and what it changed."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import short
from outreach.mail.reports import mail_id_in
from outreach.models import ProviderEvent
from routing.admin.leads import state

LOOKS = {"bounced": "bad", "complained": "bad", "rejected": "bad", "unsubscribed": "warn", "delivered": "ok"}


class KindTabs(Tabs):
    title = "kind"
    parameter_name = "kind"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("acted", "Changed something", lambda rows: rows.exclude(effect="")),
    )


@admin.register(ProviderEvent)
class ProviderEventAdmin(Facts):
    list_display = ("what", "about", "source", "effect", "received")
    list_select_related = ("recipient",)
    list_filter = (KindTabs,)
    fields = (*list_display, "mail_id", "event_id", "occurred_at", "detail")
    readonly_fields = fields
    list_title = "Reports on mails"
    search_fields = ("mail_id",)
    search_help_text = "The Message-ID, whole."
    empty_says = "No reports yet. Webhooks of providers, /events/mail and agents bring them; .env.example says how."

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = mail_id_in(search_term)
        return (queryset.filter(mail_id=term) if term else queryset), False

    @admin.display(description="what")
    def what(self, report: ProviderEvent) -> SafeString:
        return state(LOOKS.get(report.kind, "closed"), report.get_kind_display())

    @admin.display(description="about")
    def about(self, report: ProviderEvent) -> str:
        return (report.recipient.key if report.recipient else report.address) or report.mail_id

    @admin.display(description="received")
    def received(self, report: ProviderEvent) -> str:
        return short(report.received_at)
