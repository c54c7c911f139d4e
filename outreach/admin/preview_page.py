"""The mails of a campaign as one real lead would get them."""

from django import forms
from django.contrib.admin import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse

from outreach.flows.audiences import pasted
from outreach.flows.previewing import preview
from outreach.models import Campaign
from routing.models import Lead


class LeadForm(forms.Form):
    """Which lead to show it with."""

    lead = forms.CharField(
        max_length=320,
        required=False,
        label="Lead",
        help_text="Its number or its e-mail address; empty: the newest lead with an address.",
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )


def preview_page(model_admin: ModelAdmin, request: HttpRequest, campaign_id: int) -> HttpResponse:
    """Show every mail of the campaign with a lead. Reads only."""
    campaign = get_object_or_404(Campaign, pk=campaign_id)
    if not model_admin.has_view_permission(request, campaign):
        raise PermissionDenied
    form = LeadForm(request.GET or None)
    wanted = form.cleaned_data["lead"].strip() if form.is_valid() else ""
    if wanted:
        lead = Lead.objects.filter(pk__in=list(pasted(wanted).ids)).first()
    else:
        lead = Lead.objects.exclude(email="").order_by("-pk").first()
    steps = campaign.steps.select_related("campaign").order_by("order")
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"Preview of {campaign}",
        "opts": model_admin.opts,
        "original": campaign,
        "form": form,
        "lead": lead,
        "previews": [preview(step=step, lead=lead) for step in steps] if lead else [],
    }
    return TemplateResponse(request, "admin/outreach/preview.html", context)
