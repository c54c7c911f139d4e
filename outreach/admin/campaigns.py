"""Campaigns: write one, look at its mails with a real lead, launch it, pause it, see how far it is."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from crmsync.desk.confirm import Asked, Question
from crmsync.desk.lists import Kept
from crmsync.desk.tabs import Tab, Tabs
from crmsync.desk.words import plural, short
from crmsync.doctor.field_check import check_field
from outreach.admin.launch_page import launch_page
from outreach.admin.preview_page import preview_page
from outreach.admin.steps import StepInline, is_draft
from outreach.errors import WrongState
from outreach.flows.finishing import end_campaign
from outreach.models import Campaign, Message
from outreach.moves import campaigns

LOOKS = {"draft": "closed", "scheduled": "warn", "running": "ok", "paused": "warn", "finished": "closed"}
PROGRESS = ("due", "claimed", "begun", "sent", "failed", "in_doubt", "suppressed", "cancelled")
Status = Campaign.Status


class CampaignTabs(Tabs):
    title = "status"
    parameter_name = "status"
    tabs = (
        Tab("", "All", lambda rows: rows),
        Tab("draft", "Drafts", lambda rows: rows.filter(status=Status.DRAFT)),
        Tab("running", "Running", lambda rows: rows.filter(status__in=Campaign.PAUSABLE)),
        Tab("paused", "Paused", lambda rows: rows.filter(status=Status.PAUSED)),
        Tab("finished", "Finished", lambda rows: rows.filter(status=Status.FINISHED)),
    )


class CampaignForm(ModelForm):
    """A draft. Its window has both ends or none."""

    class Meta:
        widgets = {  # noqa: RUF012 - as Django has it
            "window_from": forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
            "window_until": forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
        }

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        begins, ends = given.get("window_from"), given.get("window_until")
        if (begins is None) != (ends is None):
            self.add_error("window_until", "A sending window has both ends, or none.")
        elif begins is not None and ends is not None and begins >= ends:
            self.add_error("window_until", "The window ends after it begins, on the same day.")
        return given


@admin.register(Campaign)
class CampaignAdmin(Kept):
    form = CampaignForm
    inlines = (StepInline,)
    list_display = ("name", "status_now", "sender", "launched")
    list_filter = (CampaignTabs,)
    search_fields = ("name",)
    fieldsets = (
        (None, {"fields": ("name",)}),
        ("From", {"fields": ("from_name", "from_address", "from_rep")}),
        ("In the CRM", {"fields": ("logs_activities",)}),
        ("When", {"fields": ("starts_at", ("window_from", "window_until"), "zone", "window_in", "daily_pace")}),
    )
    actions = ("pause_selected", "resume_selected", "finish_selected", "log_selected", "stop_logging_selected")
    change_form_template = "admin/outreach/campaign.html"
    empty_says = "No campaigns yet. Add one with its mails, look at them with a real lead, then launch it."

    def get_urls(self) -> list[URLPattern]:
        own = [
            path("<int:campaign_id>/launch/", self._own(launch_page), name="outreach_campaign_launch"),
            path("<int:campaign_id>/preview/", self._own(preview_page), name="outreach_campaign_preview"),
        ]
        return [*own, *super().get_urls()]

    def _own(self, page: Any) -> Any:
        def view(request: HttpRequest, campaign_id: int) -> HttpResponse:
            return page(self, request, campaign_id)

        return self.admin_site.admin_view(view)

    @admin.display(description="status")
    def status_now(self, campaign: Campaign) -> SafeString:
        return format_html('<span class="state {}">{}</span>', LOOKS[campaign.status], Status(campaign.status).label)

    @admin.display(description="from")
    def sender(self, campaign: Campaign) -> str:
        return f"{campaign.from_address}, or the lead's rep" if campaign.from_rep else campaign.from_address

    @admin.display(description="launched")
    def launched(self, campaign: Campaign) -> str:
        return f"{short(campaign.launched_at)} by {campaign.launched_by}" if campaign.launched_at else "–"

    def has_change_permission(self, request: HttpRequest, obj: Campaign | None = None) -> bool:
        """What was launched is frozen."""
        return is_draft(obj) and super().has_change_permission(request, obj)

    def has_work_permission(self, request: HttpRequest) -> bool:
        """Who may write campaigns may launch and stop them."""
        return bool(request.user.has_perm("outreach.change_campaign"))

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method == "POST" and request.POST.get("logs_activities") and (problem := not_ready_for_tasks()):
            self.message_user(request, problem, messages.WARNING)
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except WrongState as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return redirect(request.get_full_path())

    def save_model(self, request: HttpRequest, obj: Campaign, form: ModelForm, change: bool) -> None:
        """The lock keeps it a draft until its mails are saved, too: a launch waits, and then sees all of it."""
        if change:
            campaigns.hold_draft(campaign_id=obj.pk)
            if form.changed_data:
                obj.save(update_fields=form.changed_data)
        else:
            obj.save()

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        campaign = context.get("original")
        context["may_work"] = self.has_work_permission(request)
        if campaign is not None and not is_draft(campaign):
            context["progress"] = progress(campaign)
            context["people"] = campaign.enrolments.count()
        return super().render_change_form(request, context, *args, **kwargs)

    def page_actions(self, row: Campaign) -> dict[str, str]:
        pause, resume, finish = (
            {"pause_selected": "Pause"},
            {"resume_selected": "Resume"},
            {"finish_selected": "Finish"},
        )
        logs = {"stop_logging_selected": "Stop logging"} if row.logs_activities else {"log_selected": "Log in the CRM"}
        running = pause | finish | logs
        fitting = {Status.SCHEDULED: running, Status.RUNNING: running, Status.PAUSED: resume | finish | logs}
        return fitting.get(Status(row.status), {})

    @admin.action(description="Pause selected", permissions=["work"])
    def pause_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            question = Question(
                title=f"Pause {plural(len(asked.ids), 'campaign')}",
                says="Nothing of them is begun any more, what is claimed included. A mail that is on its way is not "
                "called back.",
                button="Pause",
                ready=count(asked.ids, *Campaign.PAUSABLE),
                others="not running or scheduled",
            )
            return asked.page(self, question)
        with transaction.atomic(durable=True):
            done = sum(campaigns.pause(campaign_id=pk) for pk in sorted(asked.ids))
        return asked.tell(self, done, "Paused", "not running or scheduled")

    @admin.action(description="Resume selected", permissions=["work"])
    def resume_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        asked = Asked(request, queryset)
        if not asked.confirmed:
            question = Question(
                title=f"Resume {plural(len(asked.ids), 'campaign')}",
                says="What came due meanwhile is sent, at the campaign's pace and inside its window.",
                button="Resume",
                ready=count(asked.ids, Status.PAUSED),
                others="not paused",
            )
            return asked.page(self, question)
        with transaction.atomic(durable=True):
            done = sum(campaigns.resume(campaign_id=pk) for pk in sorted(asked.ids))
        return asked.tell(self, done, "Resumed", "not paused")

    @admin.action(description="Finish selected", permissions=["work"])
    def finish_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        asked = Asked(request, queryset)
        found = Campaign.objects.filter(pk__in=asked.ids, status__in=(*Campaign.PAUSABLE, Status.PAUSED))
        if not asked.confirmed:
            question = Question(
                title=f"Finish {plural(len(asked.ids), 'campaign')}",
                says="Everybody who has not had every mail is taken out, for good. What is in doubt stays in doubt; a "
                "campaign is finished once nothing of it is on its way or in doubt.",
                button="Finish",
                ready=found.count(),
                others="not launched, or finished already",
            )
            return asked.page(self, question)
        ended = [end_campaign(campaign_id=pk, by=asked.by) for pk in found.order_by("pk").values_list("pk", flat=True)]
        waits = sum(not one.finished for one in ended)
        more = f"Took out {plural(sum(one.taken_out for one in ended), 'lead')}." + (
            f" {waits:,} will be finished once nothing is on its way or in doubt." if waits else ""
        )
        if left := sum(one.left for one in ended):
            more += f" {plural(left, 'lead')} just then being mailed stayed in: finish again."
        skipped = len(asked.ids) - len(ended)
        others = f"{skipped:,} not launched, or finished already" if skipped else ""
        return asked.tell_in(self, len(ended) - waits, "Finished", others, more)

    @admin.action(description="Log mails in the CRM from now on", permissions=["work"])
    def log_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return self._log(request, queryset, on=True)

    @admin.action(description="Stop logging mails in the CRM", permissions=["work"])
    def stop_logging_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        return self._log(request, queryset, on=False)

    def _log(self, request: HttpRequest, queryset: Any, *, on: bool) -> HttpResponse | None:
        asked, others = Asked(request, queryset), "logged already" if on else "not logged"
        if not asked.confirmed:
            many = plural(len(asked.ids), "campaign")
            question = Question(
                title=f"Log the mails of {many} in the CRM" if on else f"Stop logging the mails of {many}",
                says="Each mail that goes from now on becomes a completed task of its lead; those before are not "
                "logged. crm_doctor says whether the org is ready for tasks."
                if on
                else "Tasks that are there, or on their way there, stay.",
                button="Log" if on else "Stop logging",
                ready=Campaign.objects.filter(pk__in=asked.ids, logs_activities=not on).count(),
                others=others,
            )
            return asked.page(self, question)
        with transaction.atomic(durable=True):
            done = sum(campaigns.log_activities(campaign_id=pk, on=on) for pk in sorted(asked.ids))
        problem = not_ready_for_tasks() if on else ""
        return asked.tell(self, done, "Logging" if on else "Stopped logging", others, problem)


def not_ready_for_tasks() -> str:
    """Why the CRM would refuse tasks as it is now, as far as it can be asked; "": it would not."""
    found = check_field(object="Task", field=settings.CRM_EXTERNAL_ID_FIELD)
    return f"Mails cannot be logged in the CRM as it is: {found.problem} See crm_doctor." if found.problem else ""


def count(ids: list[int], *statuses: str) -> int:
    return Campaign.objects.filter(pk__in=ids, status__in=statuses).count()


def progress(campaign: Campaign) -> list[dict[str, Any]]:
    """For each step, how many of its mails are in which state, and how many of all of them."""
    counts: dict[int, dict[str, int]] = {}
    rows = Message.objects.filter(enrolment__campaign=campaign).order_by()
    for step, status, many in rows.values_list("step_id", "status").annotate(Count("pk")):
        counts.setdefault(step, {})[status] = many
    lines = [(f"{step.order}. {step.subject}", counts.get(step.pk, {})) for step in campaign.steps.order_by("order")]
    total = {status: sum(of.get(status, 0) for of in counts.values()) for status in PROGRESS}
    return [
        {"name": name, "counts": [(Message.Status(status).label, status, of.get(status, 0)) for status in PROGRESS]}
        for name, of in [*lines, ("Together", total)]
    ]
