"""Mails: each with its tries and everything that happened to it, to read. A sequence can be stopped from here."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Facts
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short, span
from outreach.flows.audiences import is_number
from outreach.models import Campaign, Enrolment, Message, Recipient, SendAttempt
from outreach.moves.suppression import stop_sequence

LOOKS = {"sent": "ok", "due": "pending", "claimed": "pending", "begun": "pending", "in_doubt": "bad", "failed": "bad"}
TRY_LOOKS = {"accepted": "ok", "begun": "pending", "deferred": "warn"}
STORY_MOST = 200


class MailTabs(Tabs):
    title = "status"
    parameter_name = "status"
    tabs = (
        Tab("", "All", lambda rows: rows),
        *(Tab(name, str(Message.Status(name).label), lambda rows, name=name: rows.filter(status=name))  # type: ignore[misc]
          for name in Message.Status.values),
    )  # fmt: skip


class CampaignFilter(admin.SimpleListFilter):
    """The newest launched campaigns by name, from their own small table."""

    title = "campaign"
    parameter_name = "campaign"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        found = Campaign.objects.filter(status__in=Campaign.LAUNCHED).order_by("-pk").values_list("pk", "name")
        return [(str(pk), name) for pk, name in found[:100]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value() or ""
        return queryset.filter(campaign_id=int(value)) if value.isdigit() else queryset


class Mails(Facts):
    """What every list of mails shares: who it is to, and a page with the tries and the story."""

    list_select_related = ("campaign", "step", "enrolment__lead")
    search_fields = ("enrolment__address",)
    search_help_text = "The address, whole, or #lead."
    change_form_template = "admin/outreach/mail.html"

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        if is_number(term):
            people = Enrolment.objects.filter(lead_id=int(term.lstrip("#")))
        else:
            people = Enrolment.objects.filter(recipient__in=Recipient.objects.filter(key=term.lower()))
        return queryset.filter(enrolment_id__in=people.values_list("pk", flat=True)), False

    @admin.display(description="to")
    def to(self, mail: Message) -> SafeString:
        return format_html('{}<br><span class="quiet">{}</span>', mail.enrolment.address, str(mail.enrolment.lead))

    @admin.display(description="mail")
    def what(self, mail: Message) -> str:
        return f"{mail.campaign}, {mail.step.order}"

    @admin.display(description="status")
    def status_now(self, mail: Message) -> SafeString:
        return format_html(
            '<span class="state {}">{}</span>{}',
            LOOKS.get(mail.status, "closed"),
            mail.get_status_display(),
            f" {mail.reason}" if mail.reason else "",
        )

    @admin.display(description="due or sent")
    def when(self, mail: Message) -> str:
        return short(mail.sent_at or mail.due_at)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        mail = context["original"]
        tries = SendAttempt.objects.filter(message_id=mail.pk).order_by("-number")[:STORY_MOST]
        context["tries"] = [
            (one, TRY_LOOKS.get(one.status, "bad"), span(one.begun_at, one.settled_at) if one.settled_at else "")
            for one in tries
        ]
        context["events"] = list(mail.events.order_by("-pk")[:STORY_MOST])
        context["title"] = context["heading"] = f"Mail {mail.step.order} of {mail.campaign} to {mail.enrolment.address}"
        context["look"], context["subtitle"] = LOOKS.get(mail.status, "closed"), None
        return super().render_change_form(request, context, *args, **kwargs)


@admin.register(Message)
class MessageAdmin(Mails):
    list_display = ("to", "what", "status_now", "when")
    list_filter = (MailTabs, CampaignFilter)
    list_title = "Mails"
    actions = ("stop_sequences",)
    empty_says = "No mails yet. Launching a campaign plans one for each of its leads."

    def page_actions(self, row: Message) -> dict[str, str]:
        return {} if row.enrolment.ended_at else {"stop_sequences": "Take the lead out"}

    def has_work_permission(self, request: HttpRequest) -> bool:
        """Mails are read-only as rows; who may change them may stop what follows."""
        return bool(request.user.has_perm("outreach.change_message"))

    @admin.action(description="Take these leads out of their campaigns", permissions=["work"])
    def stop_sequences(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        asked = Asked(request, queryset)
        people = Enrolment.objects.filter(messages__in=asked.ids, ended_at=None).distinct()
        if not asked.confirmed:
            question = Question(
                title=f"Take the leads of {plural(len(asked.ids), 'mail')} out",
                says="They get no further mail of this campaign. A mail that is on its way is not called back. Other "
                "campaigns are not touched: for that, suppress the address.",
                button="Take out",
                ready=people.count(),
                others="out already, or chosen twice",
            )
            return asked.page(self, question, describe)
        reason = Enrolment.EndReason.CANCELLED
        found = list(people.order_by("pk").values_list("pk", flat=True))
        done = sum(stop_sequence(enrolment_id=pk, reason=reason, worker=asked.by) for pk in found)
        return asked.tell(self, done, "Took out", "out already, or chosen twice")


def describe(mail: Message) -> str:
    """A mail in a line of a question."""
    return f"{mail.campaign}, mail {mail.step.order}, to {mail.enrolment.address}"
