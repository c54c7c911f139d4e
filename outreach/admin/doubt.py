"""Mails in doubt: what is known of each, and a person's decision. Usually it went."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.words import plural, short
from outreach.admin.mails import CampaignFilter, Mails, describe
from outreach.flows.deciding import decide
from outreach.models import InDoubt, SendAttempt
from outreach.moves.doubt import unlocks_at

GONE = "not in doubt any more"


@admin.register(InDoubt)
class InDoubtAdmin(Mails):
    list_display = ("to", "what", "begun", "known", "again_from")
    list_filter = (CampaignFilter,)
    list_title = "In doubt"
    ordering = ("pk",)
    actions = ("it_went", "it_did_not_go")
    empty_says = "Nothing is in doubt. A mail whose outcome nobody knows would be here, never sent again by itself."

    def get_queryset(self, request: HttpRequest) -> QuerySet[InDoubt]:
        doubtful = SendAttempt.objects.filter(status=SendAttempt.Status.IN_DOUBT)
        return super().get_queryset(request).prefetch_related(Prefetch("tries", doubtful, to_attr="doubtful"))

    @admin.display(description="begun")
    def begun(self, mail: InDoubt) -> str:
        attempt = attempt_of(mail)
        return short(attempt.begun_at) if attempt else "–"

    @admin.display(description="what is known")
    def known(self, mail: InDoubt) -> SafeString | str:
        attempt = attempt_of(mail)
        if attempt is None:
            return "–"
        phase = f"silence after {attempt.phase}" if attempt.phase else "its worker was gone before it could say"
        return format_html(
            '{}<br><span class="quiet">{} · {}</span>', attempt.reply or phase, attempt.worker, attempt.mail_id
        )

    @admin.display(description="can be sent again")
    def again_from(self, mail: InDoubt) -> str:
        attempt = attempt_of(mail)
        if attempt is None:
            return "–"
        unlocks = unlocks_at(attempt.begun_at)
        return "now" if unlocks <= timezone.now() else f"from {short(unlocks)}"

    def page_actions(self, row: InDoubt) -> dict[str, str]:
        return {"it_went": "It went", "it_did_not_go": "It did not go, send again"}

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """Mails are read-only as rows; who may change what is in doubt may decide."""
        return bool(request.user.has_perm("outreach.change_indoubt"))

    @admin.action(description="It went", permissions=["decide"])
    def it_went(self, request: HttpRequest, queryset: QuerySet[InDoubt]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            question = Question(
                title=f"Count {plural(len(asked.ids), 'mail')} as sent",
                says="They count as sent, and the next mails of their sequences follow. Say this unless you know that "
                "they did not arrive: a mail too few is asked for, a mail too many is complained about.",
                button="It went:",
                ready=InDoubt.objects.filter(pk__in=asked.ids).count(),
                others=GONE,
                wants_reason=True,
            )
            return asked.page(self, question, describe)
        decided = decide(message_ids=asked.ids, went=True, by=asked.by, reason=asked.reason)
        return asked.tell(self, decided.done, "Counted as sent:", GONE)

    @admin.action(description="It did not go, send again", permissions=["decide"])
    def it_did_not_go(self, request: HttpRequest, queryset: QuerySet[InDoubt]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed or not asked.reason:
            if asked.confirmed:
                self.message_user(request, "Say why: sending again may mail somebody twice.", messages.ERROR)
            return asked.page(self, send_again_question(asked.ids), describe)
        decided = decide(message_ids=asked.ids, went=False, by=asked.by, reason=asked.reason)
        early = f"{decided.too_early:,} that may still be on the way" if decided.too_early else ""
        gone = f"{decided.gone:,} {GONE}" if decided.gone else ""
        return asked.tell_in(self, decided.done, "To be sent again:", ", ".join(filter(None, (early, gone))))


def attempt_of(mail: Any) -> SendAttempt | None:
    return next(iter(mail.doubtful), None)


def send_again_question(ids: list[int]) -> Question:
    """What the page asks, with how many are still locked, and until when the last of them is."""
    tries = SendAttempt.objects.filter(message_id__in=ids, status=SendAttempt.Status.IN_DOUBT)
    unlocks = sorted(unlocks_at(begun_at) for begun_at in tries.values_list("begun_at", flat=True))
    locked = [moment for moment in unlocks if moment > timezone.now()]
    until = f" {plural(len(locked), 'is', 'are')} locked until {short(locked[-1])} UTC at the latest." if locked else ""
    return Question(
        title=f"Send {plural(len(ids), 'mail')} again",
        says="If one of them went after all, somebody is mailed twice. Look for the Message-ID in the relay's log "
        f"first. A mail can be sent again once no hand-over of it can be going on any more.{until}",
        button="Send again:",
        ready=len(unlocks) - len(locked),
        others="still locked, or not in doubt any more",
        wants_reason=True,
    )
