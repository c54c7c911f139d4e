"""Retry all that match: not only the rows of the page, exactly as many as the page that asks has counted."""

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone

from crmsync.desk.lists import count_up_to
from crmsync.desk.tabs import count_anew
from crmsync.desk.words import capped
from crmsync.flows.retry_all import retry_all

MOST = 100_000
BUDGET_S = 20.0


def retry_all_page(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """First the count and the question; then those that were dead when it was asked."""
    back = f"admin:crmsync_{model_admin.opts.model_name}_changelist"
    narrowed: QuerySet[Any] = model_admin.get_changelist_instance(request).get_queryset(request)
    asked_at = moment(request.POST.get("asked_at", ""))
    if request.method == "POST" and asked_at:
        by, reason = request.user.get_username(), request.POST.get("reason", "").strip()[:500]
        said = words(model_admin, request)
        done = retry_all(
            matching=narrowed.filter(settled_at__lte=asked_at), by=by, reason=reason, about=said, budget_s=BUDGET_S
        )
        text = f"Retried {done.retried:,}."
        if done.skipped_newer:
            text += f" Skipped {done.skipped_newer:,} already overtaken by newer versions."
        if done.left:
            text += f" {done.left:,} are left: press it again."
        model_admin.message_user(request, text, messages.WARNING if done.left else messages.SUCCESS)
        count_anew()
        return redirect(back)
    count = count_up_to(narrowed, MOST)
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"Retry all {capped(count, MOST)} that match",
        "opts": model_admin.opts,
        "count": count,
        "filter": words(model_admin, request),
        "asked_at": newest_of(narrowed),
    }
    return TemplateResponse(request, "admin/crmsync/retry_all.html", context)


def newest_of(rows: QuerySet[Any]) -> datetime:
    """When the last of them died, by the clock that wrote it."""
    newest: datetime | None = rows.order_by("-settled_at").values_list("settled_at", flat=True).first()
    return newest or timezone.now()


def words(model_admin: Any, request: HttpRequest) -> str:
    """The filter in words: "lock failures, parent Account:acme"."""
    narrowed = [f"{name} {value}" for name, value in request.GET.items() if value]
    return ", ".join([str(model_admin.opts.verbose_name_plural), *narrowed])


def moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
