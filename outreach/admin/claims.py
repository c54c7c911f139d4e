"""Who is sending right now, which mails they hold and for how long: to look at only."""

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import short
from outreach.admin.mails import CampaignFilter
from outreach.models import Claim


class ClaimTabs(Tabs):
    title = "life"
    parameter_name = "life"
    tabs = (
        Tab("", "Live", lambda rows: rows.filter(ended_at=None), counted=True),
        Tab("expired", "Lease over", lambda rows: rows.filter(ended_at=None, lease_until__lt=Now()), counted=True),
        Tab("all", "All", lambda rows: rows),
    )


@admin.register(Claim)
class ClaimAdmin(Facts):
    list_display = ("worker", "campaign", "size", "holds", "claimed", "heartbeat", "lease", "ended")
    list_select_related = ("campaign",)
    list_filter = (ClaimTabs, CampaignFilter)
    fields = (*list_display, "end_reason")
    readonly_fields = fields
    list_title = "Claims on mails"
    empty_says = "No live claims: nobody is sending at this moment."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Claim]:
        held = Count("messages", filter=Q(messages__claim__isnull=False))
        return super().get_queryset(request).annotate(held=held)

    @admin.display(description="still held")
    def holds(self, claim: Claim) -> int:
        return claim.held  # type: ignore[attr-defined]

    @admin.display(description="claimed")
    def claimed(self, claim: Claim) -> str:
        return short(claim.claimed_at)

    @admin.display(description="heartbeat")
    def heartbeat(self, claim: Claim) -> str:
        return short(claim.heartbeat_at)

    @admin.display(description="lease until")
    def lease(self, claim: Claim) -> str:
        return short(claim.lease_until)

    @admin.display(description="ended")
    def ended(self, claim: Claim) -> str:
        return f"{short(claim.ended_at)}: {claim.end_reason}" if claim.ended_at else "live"
