"""Whether somebody has done something with leads since: what an undo leaves alone, and why."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import QuerySet

from routing.models import Assignment, InboundEvent, Lead

CLOSED = "was closed already"
NEWS = "has heard from its sender again"
BY_HAND = "was given to somebody by hand, or moved on"
WORKED = "was worked"
ELSEWHERE = "is in use elsewhere, in a campaign perhaps"


def touched(
    *, lead_ids: Sequence[int], since: datetime, moved: QuerySet[Assignment], news: QuerySet[InboundEvent]
) -> dict[int, str]:
    """Those of the leads that somebody has touched, with what happened. `moved`: assignments that no turn of ours made;
    `news`: events that we did not bring. Call inside a transaction that has locked the leads."""
    because: dict[int, str] = {}
    for relation in Lead._meta.related_objects:
        model = relation.related_model
        if not isinstance(model, str) and model._meta.app_label != Lead._meta.app_label:
            name = relation.field.name
            found = model._base_manager.filter(**{f"{name}__in": lead_ids})
            because |= dict.fromkeys(found.values_list(name, flat=True), ELSEWHERE)
    leads = Lead.objects.filter(pk__in=lead_ids)
    because |= dict.fromkeys(leads.filter(first_worked_at__gte=since).values_list("pk", flat=True), WORKED)
    because |= dict.fromkeys(moved.filter(lead_id__in=lead_ids).values_list("lead_id", flat=True), BY_HAND)
    because |= dict.fromkeys(news.filter(lead_id__in=lead_ids).values_list("lead_id", flat=True), NEWS)
    because |= dict.fromkeys(leads.filter(status=Lead.Status.CLOSED).values_list("pk", flat=True), CLOSED)
    return {key: because[key] for key in lead_ids if key in because}
