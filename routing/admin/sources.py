"""Sources of leads, and everything they delivered: facts, as they came."""

import json
from typing import Any, ClassVar

from django.contrib import admin
from django.db import transaction
from django.db.models import Max, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Facts, Kept
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short
from routing.admin.leads import state
from routing.models import Delivery, InboundEvent, InboundSource, Team
from routing.sources import drop_previous_secrets, rotate_secrets

NEWEST = 50_000


@admin.register(InboundSource)
class InboundSourceAdmin(Kept):
    list_display = ("name", "address", "team", "receives", "secrets")
    list_select_related = ("team",)
    ordering = ("name",)
    fields = ("name", "slug", "team", "sticky_owner", "account_owner", "active")
    prepopulated_fields = {"slug": ("name",)}
    actions = ("rotate_secret", "drop_previous_secret")
    empty_says = "No sources yet. Add one to get a webhook address and a secret for a form or another system."

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "slug":
            kwargs["help_text"] = "The last part of its webhook address. Senders must be told when it changes."
        if db_field.name == "team":
            kwargs["queryset"] = Team.objects.filter(retired_at=None).order_by("name")
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_prepopulated_fields(self, request: HttpRequest, obj: InboundSource | None = None) -> dict[str, Any]:
        return {} if obj else dict(self.prepopulated_fields)

    @admin.display(description="webhook")
    def address(self, source: InboundSource) -> str:
        return reverse("inbound", args=[source.slug])

    @admin.display(description="receives", ordering="active")
    def receives(self, source: InboundSource) -> SafeString:
        return state("ok", "yes") if source.active else state("closed", "switched off")

    @admin.display(description="secrets")
    def secrets(self, source: InboundSource) -> str:
        return "changing over: two work" if source.previous_secret else "one"

    def save_model(self, request: HttpRequest, obj: InboundSource, form: ModelForm, change: bool) -> None:
        obj.save(update_fields=form.changed_data or ["name"]) if change else obj.save()

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if source := context.get("original"):
            context["webhook"] = request.build_absolute_uri(self.address(source))
            context["may_see_secret"] = self.has_change_permission(request, source)
        return super().render_change_form(request, context, *args, **kwargs)

    def page_actions(self, row: InboundSource) -> dict[str, str]:
        drop = {"drop_previous_secret": "Drop previous secret"} if row.previous_secret else {}
        return {"rotate_secret": "Rotate secret", **drop}

    @admin.action(description="Rotate secret", permissions=["change"])
    def rotate_secret(self, request: HttpRequest, queryset: QuerySet[InboundSource]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            return asked.page(
                self,
                Question(
                    title=f"Rotate the secret of {plural(len(asked.ids), 'source')}",
                    says="Each gets a fresh secret. The one it has now goes on working until you drop it, so senders "
                    "can change over; a secret that was the previous one before stops working now.",
                    button="Rotate",
                    ready=len(asked.ids),
                    others="gone",
                ),
            )
        with transaction.atomic(durable=True):
            rotated = rotate_secrets(source_ids=asked.ids)
        return asked.tell(self, rotated, "Rotated", "that are gone")

    @admin.action(description="Drop previous secret", permissions=["change"])
    def drop_previous_secret(self, request: HttpRequest, queryset: QuerySet[InboundSource]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            found = InboundSource.objects.filter(pk__in=asked.ids)
            return asked.page(
                self,
                Question(
                    title=f"Drop the previous secret of {plural(len(asked.ids), 'source')}",
                    says="Deliveries that are still signed with it are refused from now on.",
                    button="Drop",
                    ready=found.exclude(previous_secret="").count(),
                    others="without a previous secret",
                ),
            )
        with transaction.atomic(durable=True):
            dropped = drop_previous_secrets(source_ids=asked.ids)
        return asked.tell(self, dropped, "Dropped", "without a previous secret")


class SourceFilter(admin.SimpleListFilter):
    """The sources by name, from their own small table."""

    title = "source"
    parameter_name = "source"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(pk), name) for pk, name in InboundSource.objects.order_by("name").values_list("pk", "name")[:100]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value() or ""
        return queryset.filter(source_id=int(value)) if value.isdigit() else queryset


class ById(Facts):
    """Facts that are looked for by the sender's own event id, whole."""

    search_fields = ("event_id",)
    search_help_text = "The sender's event id, whole."
    list_filter: ClassVar[tuple[Any, ...]] = (SourceFilter,)
    list_select_related: ClassVar[tuple[str, ...]] = ("source",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return (self.find(queryset, search_term.strip()) if search_term.strip() else queryset), False

    def find(self, rows: QuerySet[Any], event_id: str) -> QuerySet[Any]:
        """The unique index begins with the source, so all sources are named: one look into it for each."""
        sources = list(InboundSource.objects.values_list("pk", flat=True))
        return rows.filter(source_id__in=sources, event_id=event_id)

    @admin.display(description="received")
    def received(self, row: Any) -> str:
        return short(row.received_at)


@admin.register(InboundEvent)
class InboundEventAdmin(ById):
    list_display = ("event_id", "source", "became", "lead", "received")
    list_select_related = ("source", "lead")
    fields = ("source", "event_id", "became", "lead", "received", "what_it_said", "digest")
    readonly_fields = fields
    empty_says = "No events yet. Each is something a sender reported once, however often it was delivered."

    @admin.display(description="outcome")
    def became(self, event: InboundEvent) -> str:
        return event.get_outcome_display() or "–"

    @admin.display(description="what it said")
    def what_it_said(self, event: InboundEvent) -> SafeString:
        return format_html("<pre>{}</pre>", json.dumps(event.payload, indent=2, ensure_ascii=False))


class VerdictTabs(Tabs):
    title = "verdict"
    parameter_name = "verdict"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("accepted", "Accepted", lambda rows: rows.filter(verdict="accepted")),
        Tab("replayed", "Replayed", lambda rows: rows.filter(verdict="replayed")),
        Tab("conflicting", "Conflicting", lambda rows: rows.filter(verdict="conflicting")),
    )


@admin.register(Delivery)
class DeliveryAdmin(ById):
    list_display = ("event_id", "source", "judged", "request_id", "received")
    list_filter = (VerdictTabs, SourceFilter)
    fields = ("source", "event_id", "judged", "request_id", "received", "as_it_came", "digest")
    readonly_fields = fields
    empty_says = "No deliveries yet. Each is one request of a sender with a good signature."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        """A list does without the bodies."""
        found = super().get_queryset(request)
        match = request.resolver_match
        return found.defer("body") if match and (match.url_name or "").endswith("changelist") else found

    def find(self, rows: QuerySet[Any], event_id: str) -> QuerySet[Any]:
        """Deliveries have no index for it: look among the newest."""
        newest = Delivery.objects.aggregate(newest=Max("pk"))["newest"] or 0
        return rows.filter(pk__gt=newest - NEWEST, event_id=event_id)

    @admin.display(description="verdict")
    def judged(self, delivery: Delivery) -> SafeString:
        look = "bad" if delivery.verdict == Delivery.Verdict.CONFLICTING else "closed"
        return state(look, delivery.get_verdict_display())

    @admin.display(description="body")
    def as_it_came(self, delivery: Delivery) -> SafeString | str:
        if delivery.body is None:
            return "The same as the accepted delivery of this event."
        return format_html("<pre>{}</pre>", bytes(delivery.body).decode(errors="replace"))
