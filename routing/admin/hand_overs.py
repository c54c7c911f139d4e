"""Hand-overs in the admin: who gave whose leads away, and taking one back."""

from datetime import timedelta

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Facts
from crmsync.desk.words import plural, short
from routing import by_hand
from routing.admin.hand_over import refusals
from routing.hand_back import UNDO_H
from routing.models import HandOver


@admin.register(HandOver)
class HandOverAdmin(Facts):
    list_display = ("membership", "leads", "by", "reason", "made", "taken_back")
    list_select_related = ("membership__rep", "membership__team")
    fields = (*list_display, "turns_back")
    readonly_fields = fields
    actions = ("undo",)
    empty_says = "Nobody has handed over leads. It is done on a rep's page: Give their open leads to the others."

    def get_queryset(self, request: HttpRequest) -> QuerySet[HandOver]:
        return super().get_queryset(request).annotate(count=Count("ended"))

    @admin.display(description="leads")
    def leads(self, run: HandOver) -> int:
        return run.count  # type: ignore[attr-defined]

    @admin.display(description="made")
    def made(self, run: HandOver) -> str:
        return short(run.made_at)

    @admin.display(description="taken back")
    def taken_back(self, run: HandOver) -> str:
        return f"{short(run.undone_at)} by {run.undone_by}" if run.undone_at else "no"

    def page_actions(self, row: HandOver) -> dict[str, str]:
        return {} if row.undone_at else {"undo": "Take back"}

    def has_work_permission(self, request: HttpRequest) -> bool:
        """Leads move here, so that whoever may change leads may do it."""
        return bool(request.user.has_perm("routing.change_lead"))

    @admin.action(description="Take back", permissions=["work"])
    def undo(self, request: HttpRequest, queryset: QuerySet[HandOver]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            young = HandOver.objects.filter(pk__in=asked.ids, undone_at=None)
            young = young.filter(made_at__gt=timezone.now() - timedelta(hours=UNDO_H))
            return asked.page(
                self,
                Question(
                    title=f"Take back {plural(len(asked.ids), 'hand-over')}",
                    says="Their leads return to the rep who had them, and the others get their turns back. Leads that "
                    "somebody has worked, closed or given by hand since stay where they are.",
                    button="Take back",
                    ready=young.count(),
                    others=f"taken back already, or older than {UNDO_H} hours",
                ),
            )
        tried = by_hand.hand_back_now(hand_over_ids=asked.ids, by=asked.by)
        left = f"{plural(tried.left, 'lead')} stayed where they are. " if tried.left else ""
        return asked.tell_in(self, tried.done, "Leads returned:", "", left + refusals(tried))
