"""Launching: choose the leads, see how many will get mail and why others will not, then confirm exactly that."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse

from crmsync.desk.words import plural
from outreach.errors import BadList, LaunchRefused, OutreachError
from outreach.flows.audiences import PASTED_MOST, ROWS_MOST, Chosen, filtered, pasted, uploaded
from outreach.flows.launching import Launched, Plan, digest_of, launch, plan
from outreach.models import Campaign
from routing.errors import BadFile
from routing.import_files import keep, path_of
from routing.models import Import, InboundSource, Lead, Team

DATE = {"type": "date"}
UNKNOWN_SHOWN = 20


class ImportField(forms.ModelChoiceField):
    def label_from_instance(self, obj: Import) -> str:
        return f"{obj.file_name}, {obj.received_at:%Y-%m-%d}"


class AudienceForm(forms.Form):
    """A filter, or a list instead, pasted or in a file. Everything is carried on to the page that asks: a file by the
    digest under which it is kept, as those of imports are.
    """

    team = forms.ModelChoiceField(Team.objects.order_by("name"), required=False, empty_label="any")
    status = forms.ChoiceField(choices=[("", "any"), *Lead.Status.choices], required=False)
    source = forms.ModelChoiceField(InboundSource.objects.order_by("name"), required=False, empty_label="any")
    imported = ImportField(
        Import.objects.filter(position__gt=0, undone_at=None).order_by("-pk"),
        required=False,
        label="Import",
        empty_label="any",
        help_text="Leads that it made or touched.",
    )
    since = forms.DateField(required=False, label="Received from", widget=forms.DateInput(attrs=DATE))
    until = forms.DateField(required=False, label="Received until", widget=forms.DateInput(attrs=DATE))
    everybody = forms.BooleanField(required=False, label="All leads there are")
    listed = forms.CharField(
        required=False,
        label="Or these leads",
        max_length=400_000,
        widget=forms.Textarea(attrs={"rows": 6, "class": "vLargeTextField"}),
        help_text=f"Numbers or e-mail addresses, {PASTED_MOST:,} at most. Then nothing of the above counts.",
    )
    file = forms.FileField(
        required=False,
        label="Or those in a CSV file",
        help_text=f"With a column of e-mail addresses, {ROWS_MOST:,} rows at most. Then nothing of the above counts.",
    )
    kept = forms.RegexField("^[0-9a-f]{64}$", required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or self.cleaned_data
        words = given.get("listed", "").replace(",", " ").replace(";", " ").split()
        if len(words) > PASTED_MOST:
            self.add_error("listed", f"These are {len(words):,}. Send so many in a file.")
        if words and (given.get("file") or given.get("kept")):
            self.add_error("file", "Paste a list or choose a file: one of them.")
        elif given.get("file"):
            try:
                given["kept"], _ = keep(given["file"].chunks())
            except BadFile as fault:
                self.add_error("file", str(fault))
        if not self.errors and not any(given.values()):
            raise forms.ValidationError("Choose whom it is for. An empty filter is not taken for everybody.")
        return given

    def chosen(self) -> Chosen:
        """Raises BadList."""
        given = dict(self.cleaned_data)
        text, kept = given.pop("listed").strip(), given.pop("kept")
        for not_a_filter in ("everybody", "file"):
            given.pop(not_a_filter)
        if kept:
            return uploaded(path_of(kept))
        return pasted(text) if text else filtered(**given)

    def carried(self) -> list[tuple[str, str]]:
        """What the page that asks sends once more."""
        given = {key: value for key, value in self.data.items() if key in self.fields}
        return list({**given, "kept": self.cleaned_data["kept"]}.items())


def launch_page(model_admin: Any, request: HttpRequest, campaign_id: int) -> HttpResponse:
    """First the form, then the page that asks, then the launch of exactly what that page showed."""
    campaign = get_object_or_404(Campaign, pk=campaign_id)
    if not model_admin.has_work_permission(request):
        raise PermissionDenied
    if campaign.status != Campaign.Status.DRAFT:
        model_admin.message_user(request, "It was launched before. Nothing was done.", messages.WARNING)
        return redirect("admin:outreach_campaign_change", campaign_id)
    form = AudienceForm(request.POST or None, request.FILES or None)
    if request.method != "POST" or not form.is_valid() or "back" in request.POST:
        return page(model_admin, request, campaign, form)
    try:
        chosen = form.chosen()
    except BadList as refusal:
        form.add_error("file", refusal.problems)
        return page(model_admin, request, campaign, form)
    if request.POST.get("confirmed") != "yes":
        return counted(model_admin, request, campaign, form, chosen)
    reason = request.POST.get("reason", "").strip()[:500]
    try:
        done = launch(
            campaign_id=campaign_id,
            leads=chosen.ids,
            by=request.user.get_username(),
            override_reason=reason,
            as_shown=request.POST.get("as_shown", "") or "nothing",
        )
    except OutreachError as refusal:
        model_admin.message_user(request, str(refusal), messages.ERROR)
        return counted(model_admin, request, campaign, form, chosen)
    text = "It was launched before. Nothing was done." if done.again else outcome(done)
    model_admin.message_user(request, text, messages.WARNING if done.again else messages.SUCCESS)
    note = f"{text} The same list and content once more: {reason}" if reason else text
    LogEntry.objects.log_actions(str(request.user.pk), Campaign.objects.filter(pk=campaign_id), CHANGE, note)
    return redirect("admin:outreach_campaign_change", campaign_id)


def outcome(done: Launched) -> str:
    """A launch in words."""
    skipped, but = (", ".join(f"{many:,} {why}" for why, many in of.items()) for of in (done.skipped, done.but))
    told = [f"Launched: enrolled {plural(done.enrolled, 'lead')}."]
    told += [f"Skipped {skipped}."] if skipped else []
    told += [f"Of those enrolled, {but}."] if but else []
    return " ".join(told)


def counted(
    model_admin: ModelAdmin, request: HttpRequest, campaign: Campaign, form: AudienceForm, chosen: Chosen
) -> HttpResponse:
    """What a launch would do now, and the question; or the form again, with everything that is in the way."""
    try:
        planned = plan(campaign=campaign, leads=chosen.ids)
    except OutreachError as refusal:
        return page(model_admin, request, campaign, form, chosen=chosen, refusal=refusal)
    return page(model_admin, request, campaign, form, chosen=chosen, planned=planned)


def page(
    model_admin: ModelAdmin,
    request: HttpRequest,
    campaign: Campaign,
    form: AudienceForm,
    *,
    chosen: Chosen | None = None,
    planned: Plan | None = None,
    refusal: OutreachError | None = None,
) -> HttpResponse:
    """The form; with a plan, the page that asks; with a refusal, the form and every problem."""
    unknown = chosen.unknown if chosen else ()
    before = planned.launched_before if planned else None
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"Launch {campaign}",
        "opts": model_admin.opts,
        "original": campaign,
        "form": form,
        "chosen": chosen,
        "unknown": unknown[:UNKNOWN_SHOWN],
        "more_unknown": max(0, len(unknown) - UNKNOWN_SHOWN),
        "planned": planned,
        "as_shown": digest_of(planned.audience_digest, planned.content_digest) if planned else "",
        "before": before,
        **(would_do(planned, again=before is not None) if planned else {}),
        "carried": form.carried() if planned else [],
        "refusal": refusal,
        "problems": refusal.problems.items() if isinstance(refusal, LaunchRefused) else [],
    }
    return TemplateResponse(request, "admin/outreach/launch.html", context)


def would_do(planned: Plan, *, again: bool) -> dict[str, Any]:
    """How many a launch enrols and why not others. `again`: it needs a reason, which lets everybody in."""
    found = planned.audience
    enrolled = found.enrolled(again=again)
    return {
        "enrolled": len(enrolled),
        "own_zone": sum(one.zone is not None for one in enrolled),
        "with_reason": len(found.people) - len(enrolled),
        "skipped": found.skipped(again=again),
        "but": found.but(again=again),
    }
