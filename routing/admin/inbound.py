"""Everything that sources delivered: facts, as they came, and another try for what made no lead."""

import json
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Max, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short
from routing.admin.leads import state
from routing.models import Delivery, InboundEvent, InboundSource
from routing.models.inbound import STUCK
from routing.replay import replay

NEWEST = 50_000
Outcome = InboundEvent.Outcome
LOOKS = {Outcome.REFUSED: "bad", Outcome.FAILED: "bad", Outcome.FETCHING: "waiting", Outcome.IGNORED: "closed"}


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


class OutcomeTabs(Tabs):
    title = "outcome"
    parameter_name = "outcome"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("stuck", "Without a lead", lambda rows: rows.filter(outcome__in=STUCK), counted=True, alarming=True),
        Tab("fetching", "Being fetched", lambda rows: rows.filter(outcome="fetching"), counted=True),
        Tab("ignored", "Ignored", lambda rows: rows.filter(outcome="ignored")),
    )


@admin.register(InboundEvent)
class InboundEventAdmin(ById):
    list_display = ("event_id", "source", "became", "lead", "received")
    list_select_related = ("source", "lead", "fetch")
    list_filter = (OutcomeTabs, SourceFilter)
    fields = ("source", "event_id", "became", "lead", "received", "fetching", "what_it_said", "fetched", "digest")
    readonly_fields = fields
    actions = ("replay_selected",)
    empty_says = "No events yet. Each is something a sender reported once, however often it was delivered."

    @admin.display(description="outcome")
    def became(self, event: InboundEvent) -> SafeString | str:
        if not event.outcome:
            return "–"
        words = state(LOOKS.get(Outcome(event.outcome), "ok"), event.get_outcome_display())
        fetch = getattr(event, "fetch", None)
        why = event.because or (fetch.said if fetch and event.outcome == Outcome.FETCHING else "")
        return format_html('{}<br><span class="quiet">{}</span>', words, why) if why else words

    @admin.display(description="fetching")
    def fetching(self, event: InboundEvent) -> str:
        fetch = getattr(event, "fetch", None)
        if fetch is None:
            return "It said all there is."
        next_try = f"; next try {short(fetch.due_at)}" if fetch.due_at else ""
        return f"{fetch.remote_id}: {plural(fetch.attempts, 'try', 'tries')}{next_try}. {fetch.said}"

    @admin.display(description="what it said")
    def what_it_said(self, event: InboundEvent) -> SafeString:
        return format_html("<pre>{}</pre>", json.dumps(event.payload, indent=2, ensure_ascii=False))

    @admin.display(description="what was fetched")
    def fetched(self, event: InboundEvent) -> SafeString | str:
        fetch = getattr(event, "fetch", None)
        if fetch is None or fetch.answer is None:
            return "–"
        return format_html("<pre>{}</pre>", json.dumps(fetch.answer, indent=2, ensure_ascii=False))

    def page_actions(self, row: InboundEvent) -> dict[str, str]:
        return {} if row.lead_id else {"replay_selected": "Replay"}

    def has_work_permission(self, request: HttpRequest) -> bool:
        """Events are read-only as rows; who may change leads may have them made."""
        return bool(request.user.has_perm("routing.change_lead"))

    @admin.action(description="Replay", permissions=["work"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[InboundEvent]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            without = InboundEvent.objects.filter(pk__in=asked.ids, lead=None)
            return asked.page(
                self,
                Question(
                    title=f"Replay {plural(len(asked.ids), 'event')}",
                    says="Each goes through once more as its source and the rules stand now, and makes a lead or "
                    "touches one if it can. What has to be fetched is asked for again. An event that has its lead is "
                    "left alone.",
                    button="Replay",
                    ready=without.count(),
                    others="with a lead already",
                ),
                lambda event: f"{event.event_id} of {event.source}: {event.get_outcome_display()}",
            )
        done = replay(event_ids=asked.ids)
        skipped = [
            (done.fetching, "are asked for again"),
            (done.refused, "still make no lead"),
            (done.ignored, "bring none"),
            (done.had_a_lead, "had theirs"),
            (done.busy, "were busy: try again"),
        ]
        words = ", ".join(f"{count:,} {what}" for count, what in skipped if count)
        return asked.tell_in(self, done.landed, "Landed", "", f"Of the others {words}." if words else "")


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
    list_display = ("brought", "source", "judged", "request_id", "received")
    list_filter = (VerdictTabs, SourceFilter)
    fields = ("source", "brought", "judged", "request_id", "received", "as_it_came", "digest")
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

    @admin.display(description="event id")
    def brought(self, delivery: Delivery) -> str:
        return delivery.event_id or plural(delivery.events, "event")

    @admin.display(description="verdict")
    def judged(self, delivery: Delivery) -> SafeString:
        look = "bad" if delivery.verdict == Delivery.Verdict.CONFLICTING else "closed"
        return state(look, delivery.get_verdict_display())

    @admin.display(description="body")
    def as_it_came(self, delivery: Delivery) -> SafeString | str:
        if delivery.body is None:
            replayed = delivery.verdict == Delivery.Verdict.REPLAYED
            return "The same as the accepted delivery of this event." if replayed else "Forgotten: it is too old."
        return format_html("<pre>{}</pre>", bytes(delivery.body).decode(errors="replace"))
