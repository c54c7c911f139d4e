"""What agents do with leads: who held which, what came of it, and a person's word on what is in doubt."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short
from outreach.models import LeadHold
from outreach.moves.lead_claims import decide_holds
from routing.admin.leads import state

LOOKS = {"held": "pending", "begun": "pending", "done": "ok", "failed": "bad", "in_doubt": "bad"}
GONE = "not in doubt any more"


class HoldTabs(Tabs):
    title = "status"
    parameter_name = "status"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("in_doubt", "In doubt", lambda rows: rows.filter(status="in_doubt"), counted=True),
    )


@admin.register(LeadHold)
class LeadHoldAdmin(Facts):
    list_display = ("lead", "job", "status_now", "worker", "when", "note")
    list_select_related = ("lead", "job", "claim")
    list_filter = (HoldTabs,)
    fields = ("lead", "job", "status_now", "worker", "when", "begun", "note", "settled_by")
    readonly_fields = fields
    list_title = "Work on leads"
    actions = ("it_was_done", "hand_out_again")
    empty_says = "Nothing yet. Leads that agents claim over the API, and what came of each, are listed here."

    @admin.display(description="status")
    def status_now(self, hold: LeadHold) -> SafeString:
        return state(LOOKS.get(hold.status, "closed"), hold.get_status_display())

    @admin.display(description="worker")
    def worker(self, hold: LeadHold) -> str:
        return hold.claim.worker

    @admin.display(description="claimed or settled")
    def when(self, hold: LeadHold) -> str:
        return short(hold.settled_at or hold.claim.claimed_at)

    @admin.display(description="begun")
    def begun(self, hold: LeadHold) -> str:
        return short(hold.begun_at)

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """What agents did is read-only as rows; who may change it may decide what is in doubt."""
        return bool(request.user.has_perm("outreach.change_leadhold"))

    def page_actions(self, row: LeadHold) -> dict[str, str]:
        doubtful = row.status == LeadHold.Status.IN_DOUBT
        return {"it_was_done": "It was done", "hand_out_again": "It was not, hand it out again"} if doubtful else {}

    @admin.action(description="It was done", permissions=["decide"])
    def it_was_done(self, request: HttpRequest, queryset: QuerySet[LeadHold]) -> HttpResponse | None:
        return self._decide(request, queryset, done=True)

    @admin.action(description="It was not done, hand it out again", permissions=["decide"])
    def hand_out_again(self, request: HttpRequest, queryset: QuerySet[LeadHold]) -> HttpResponse | None:
        return self._decide(request, queryset, done=False)

    def _decide(self, request: HttpRequest, queryset: QuerySet[LeadHold], *, done: bool) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed or (not done and not asked.reason):
            title = "Count {} as done" if done else "Hand {} out again"
            question = Question(
                title=title.format(plural(len(asked.ids), "lead")),
                says="Nobody gets them for this job again."
                if done
                else "If one of them was worked on after all, somebody hears from us twice: say why you know better.",
                button="It was done:" if done else "Hand out again:",
                ready=LeadHold.objects.filter(pk__in=asked.ids, status=LeadHold.Status.IN_DOUBT).count(),
                others=GONE,
                wants_reason=True,
            )
            return asked.page(self, question, lambda hold: f"{hold.lead}, {hold.job}, {hold.claim.worker}")
        decided = decide_holds(hold_ids=asked.ids, done=done, by=asked.by, note=asked.reason)
        return asked.tell(self, decided, "Counted as done:" if done else "Can be claimed again:", GONE)
