"""The outbox: every change of a CRM record, with its state, its attempts and its last failure."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.contended import parents_in_words
from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import short, span
from crmsync.models import CrmRecord, OutboxMessage


class StateTabs(Tabs):
    title = "state"
    parameter_name = "state"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("due", "Due", lambda rows: rows.filter(status="pending", due_at__lte=Now()), counted=True),
        Tab("later", "Later", lambda rows: rows.filter(status="pending", due_at__gt=Now()), counted=True),
        Tab(
            "claimed",
            "Claimed",
            lambda rows: rows.filter(status="claimed", claim__isnull=False),
            counted=True,
        ),
        Tab("dead", "Dead", lambda rows: rows.filter(status="dead"), counted=True, alarming=True),
        Tab("delivered", "Delivered", lambda rows: rows.filter(status="delivered")),
        Tab("replaced", "Replaced", lambda rows: rows.filter(status__in=OutboxMessage.REPLACED)),
    )


class PriorityFilter(admin.SimpleListFilter):
    title = "priority"
    parameter_name = "priority"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(priority.value), str(priority.label)) for priority in OutboxMessage.Priority]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value() or ""
        return queryset.filter(priority=int(value)) if value.isdigit() else queryset


class Messages(Facts):
    """What every list of messages shares: the record, and a page with fields, parents and the line of attempts."""

    list_select_related = ("record",)
    search_fields = ("record__external_id",)
    search_help_text = "Rota's key of the record, its id in the CRM (with an object in front: Lead 00Q…), or #message."
    change_form_template = "admin/crmsync/message.html"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return find(queryset, search_term), False

    @admin.display(description="state")
    def state_now(self, message: OutboxMessage) -> SafeString:
        return format_html('<span class="state {}">{}</span>', message.status, message.get_status_display())

    @admin.display(description="record")
    def of(self, message: OutboxMessage) -> SafeString:
        record = message.record
        return format_html(
            '{}<br><span class="quiet">{} · version {}</span>', record.external_id, record.is_a, message.version
        )

    @admin.display(description="due")
    def due(self, message: OutboxMessage) -> str:
        return short(message.settled_at or message.due_at)

    @admin.display(description="last failure")
    def failure(self, message: OutboxMessage) -> str:
        if not message.failure_kind:
            return "–"
        code = f": {message.failure_code}" if message.failure_code else ""
        return f"{message.get_failure_kind_display()}{code}"

    @admin.display(description="parent")
    def parent(self, message: OutboxMessage) -> str:
        return parents_in_words(message) or "–"

    @admin.display(description="failed")
    def failed(self, message: OutboxMessage) -> str:
        return short(message.settled_at)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        message = context["original"]
        tries = message.tries.select_related("claim").order_by("begun_at")[:100]
        context["tries"] = [(one, span(one.begun_at, one.ended_at) if one.ended_at else "") for one in tries]
        context["parents_in_words"] = parents_in_words(message)
        context["others"] = (
            OutboxMessage.objects.filter(record=message.record).exclude(pk=message.pk).order_by("-pk")[:10]
        )
        context["title"] = context["heading"] = f"{message.record.is_a} {message.record.external_id}"
        context["subtitle"] = None
        return super().render_change_form(request, context, *args, **kwargs)


@admin.register(OutboxMessage)
class OutboxAdmin(Messages):
    list_display = ("of", "state_now", "priority_now", "due", "attempts", "failure")
    list_filter = (StateTabs, PriorityFilter)
    list_title = "Outbox"
    empty_says = "Nothing here. Every assignment of a lead puts one message into the outbox."

    @admin.display(description="priority")
    def priority_now(self, message: OutboxMessage) -> str:
        return str(message.get_priority_display())

    @admin.display(description="due or settled")
    def due(self, message: OutboxMessage) -> str:
        return super().due(message)


def find(messages: QuerySet[Any], term: str) -> QuerySet[Any]:
    """Messages by record: each form of a key is one look into one index."""
    term = term.strip()
    if not term:
        return messages
    if term.startswith("#") and term[1:].isdigit():
        return messages.filter(pk=int(term[1:]))
    object_name, _, key = term.rpartition(" ")
    records = CrmRecord.objects.filter(object__in=[object_name] if object_name else OBJECTS)
    found = list(records.filter(external_id=key).values_list("pk", flat=True)[:100])
    found += records.filter(crm_id=key).values_list("pk", flat=True)[:100]
    return messages.filter(record_id__in=found)


# Both indexes on records begin with the object. Another object is found with its name in front.
OBJECTS = ("Lead", "Contact", "Account", "Campaign", "CampaignMember", "Task", "Opportunity", "Case")
