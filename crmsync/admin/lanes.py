"""Who writes to the CRM right now, and under which locks; a lane can be held by hand."""

from urllib.parse import quote

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.admin.hold_page import hold_page
from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import short, span
from crmsync.models import Attempt, Claim, Lane


class LaneTabs(Tabs):
    title = "use"
    parameter_name = "use"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("held", "Held", lambda rows: rows.filter(claim__isnull=False), counted=True),
        Tab("backoff", "Backing off", lambda rows: rows.filter(claim__isnull=True, not_before__gt=Now()), counted=True),
        Tab("hand", "Held by hand", lambda rows: rows.filter(held_until__gt=Now()), counted=True),
        Tab("quarantine", "Quarantined", lambda rows: rows.filter(quarantined_until__gt=Now())),
    )


@admin.register(Lane)
class LaneAdmin(Facts):
    list_display = ("key", "held_by", "failures", "backs_off", "quarantine", "by_hand")
    list_select_related = ("claim",)
    list_filter = (LaneTabs,)
    search_fields = ("key",)
    search_help_text = "The lock key, whole."
    ordering = ("key",)
    empty_says = "No lanes. They come when a write needs them and go when they are idle."

    def get_urls(self) -> list[URLPattern]:
        own = path("hold/", self.admin_site.admin_view(self.hold), name="crmsync_lane_hold")
        return [own, *super().get_urls()]

    def hold(self, request: HttpRequest) -> HttpResponse:
        """Hold a lane until a time, or release it."""
        if not request.user.has_perm("crmsync.change_lane"):
            raise PermissionDenied
        return hold_page(self, request)

    @admin.display(description="held by hand")
    def by_hand(self, lane: Lane) -> SafeString | str:
        link = format_html('<a href="{}?key={}">', reverse("admin:crmsync_lane_hold"), quote(lane.key))
        if lane.held_until and lane.held_until > timezone.now():
            return format_html("{}until {}</a>, {}", link, short(lane.held_until), lane.held_by)
        return format_html("{}hold…</a>", link)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Lane], search_term: str
    ) -> tuple[QuerySet[Lane], bool]:
        return (queryset.filter(key=search_term.strip()) if search_term.strip() else queryset), False

    @admin.display(description="held by")
    def held_by(self, lane: Lane) -> str:
        return lane.claim.worker if lane.claim else "–"

    @admin.display(description="backs off until")
    def backs_off(self, lane: Lane) -> str:
        return short(lane.not_before)

    @admin.display(description="quarantined until")
    def quarantine(self, lane: Lane) -> str:
        return short(lane.quarantined_until)


class ClaimTabs(Tabs):
    title = "life"
    parameter_name = "life"
    tabs = (
        Tab("", "Live", lambda rows: rows.filter(ended_at__isnull=True), counted=True),
        Tab("expired", "Lease over", lambda rows: rows.filter(ended_at__isnull=True, lease_until__lt=Now())),
        Tab("all", "All", lambda rows: rows),
    )


@admin.register(Claim)
class ClaimAdmin(Facts):
    list_display = ("worker", "claimed", "begun", "lease", "ended", "holds")
    list_filter = (ClaimTabs,)
    ordering = ("-lease_until",)
    empty_says = "No live claims: no worker is writing at this moment."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Claim]:
        return super().get_queryset(request).annotate(messages_held=Count("messages"))

    @admin.display(description="claimed")
    def claimed(self, claim: Claim) -> str:
        return short(claim.claimed_at)

    @admin.display(description="begun")
    def begun(self, claim: Claim) -> str:
        return short(claim.begun_at)

    @admin.display(description="lease until")
    def lease(self, claim: Claim) -> str:
        return short(claim.lease_until)

    @admin.display(description="ended")
    def ended(self, claim: Claim) -> str:
        return f"{short(claim.ended_at)}: {claim.end_reason}" if claim.ended_at else "live"

    @admin.display(description="messages")
    def holds(self, claim: Claim) -> int:
        return claim.messages_held  # type: ignore[attr-defined]


@admin.register(Attempt)
class AttemptAdmin(Facts):
    list_display = ("record", "number", "begun", "took", "came", "code")
    list_select_related = ("message__record",)
    empty_says = "No attempts yet. Each try to write a record is one, committed before the call leaves."

    @admin.display(description="record")
    def record(self, attempt: Attempt) -> str:
        return str(attempt.message.record)

    @admin.display(description="begun")
    def begun(self, attempt: Attempt) -> str:
        return short(attempt.begun_at)

    @admin.display(description="took")
    def took(self, attempt: Attempt) -> str:
        return span(attempt.begun_at, attempt.ended_at) if attempt.ended_at else "open"

    @admin.display(description="outcome")
    def came(self, attempt: Attempt) -> SafeString:
        outcome = attempt.outcome or "open"
        look = {"delivered": "ok", "open": "pending"}.get(outcome, "bad")
        return format_html('<span class="state {}">{}</span>', look, outcome.replace("_", " "))
